package main

import (
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
)

// measurement is one line of the comparison: a load, the sides that run against it, and the
// metrics.
type measurement struct {
	name    string // the name for benchstat
	load    load
	sides   []side
	metrics []metric
	turns   int // the maximum number of turns; 0 is all turns
}

// metric computes one number from a sample.
type metric struct {
	unit  string
	value func(load load, o sample) float64
	net   bool // in the table, the generator's part is subtracted
}

// The names of the sides.
const (
	ours          = "bellerophon"         // with the default debounce window
	oursWindow0   = "bellerophon-window0" // without debouncing
	oursWindow100 = "bellerophon-window100ms"
	theirs        = "client-go"
	floor         = "reflector"
	baseline      = "generator"
)

// The names of the measurements that the goals use.
const (
	throughput    = "Throughput/feed=decoded"
	pacedFast     = "Paced/rate=100k"
	pacedSlow     = "Paced/rate=10k"
	heapTyped     = "Heap/cached=typed/kind="
	heapProjected = "Heap/cached=projected/kind="
)

// The amount of load.
const (
	heapObjects    = 50_000
	updatesPerKey  = 10 // per second, of both kinds together, when paced: long intervals compared with the window
	updatesOfBurst = 10
)

func perEvent(unit string, value func(sample) float64) metric {
	return metric{unit: unit, value: func(_ load, o sample) float64 { return value(o) / float64(o.Updates) }}
}

func delay(unit string, percent int) metric {
	return metric{unit: unit, value: func(_ load, o sample) float64 { return float64(percentile(o.Delays, percent)) }}
}

var (
	eventRate       = metric{unit: "events/s", value: func(_ load, o sample) float64 { return float64(o.Updates) / o.Elapsed.Seconds() }}
	elapsedPerEvent = perEvent("ns/op", func(o sample) float64 { return float64(o.Elapsed) })
	cpuPerEvent     = perEvent("cpu-ns/op", func(o sample) float64 { return float64(o.CPU) })
	bytesPerEvent   = perEvent("B/op", func(o sample) float64 { return float64(o.Bytes) })
	allocsPerEvent  = perEvent("allocs/op", func(o sample) float64 { return float64(o.Allocs) })
	reconcileRate   = perEvent("reconciles/op", func(o sample) float64 { return float64(o.Reconciles) })
	median50, p99   = delay("p50-ns", 50), delay("p99-ns", 99)
	heapPerObject   = metric{unit: "heap-B/object", value: func(l load, o sample) float64 { return float64(o.Heap) / float64(l.keys) }}
	reconcilesOfKey = metric{unit: "reconciles/key", value: func(l load, o sample) float64 { return float64(o.Reconciles) / float64(l.keys) }}
)

// less returns a metric with the generator's part subtracted.
func less(m metric) metric {
	m.net = true
	return m
}

// plan returns all measurements.
func plan() []measurement {
	standard := []side{bellerophon(ours, operators.DefaultWindow), bellerophon(oursWindow0, 0), clientGo(), reflectors(), generator()}
	pair := []side{standard[0], standard[2]}
	paced := func(name string, rate float64, lasting time.Duration, metrics ...metric) measurement {
		load := load{kinds: bothKinds, keys: int(rate) / updatesPerKey, rate: rate, updates: int(rate * lasting.Seconds())}
		return measurement{name, load, standard, append(metrics, eventRate, reconcileRate, median50, p99), 0}
	}
	flow := []metric{eventRate, elapsedPerEvent, bytesPerEvent, less(bytesPerEvent), allocsPerEvent, less(allocsPerEvent), cpuPerEvent, reconcileRate}
	all := []measurement{
		{throughput, load{kinds: bothKinds, keys: 10_000, updates: 100_000}, standard, append(flow, less(cpuPerEvent)), 0},
		{"Throughput/feed=wire", load{kinds: bothKinds, wire: true, keys: 250, updates: 5_000}, standard, flow, 0},
		paced(pacedFast, 100_000, time.Second, cpuPerEvent, less(cpuPerEvent)),
		paced(pacedSlow, 10_000, time.Second),
		{
			"Burst/updates=10/keys=1000",
			load{kinds: []string{sheroKind}, keys: 1_000, updates: 1_000 * updatesOfBurst, rate: 100_000},
			[]side{standard[0], standard[1], bellerophon(oursWindow100, 100*time.Millisecond), standard[2]},
			[]metric{reconcilesOfKey, median50, p99},
			0,
		},
	}
	// Heap measurements take long, and their results differ by 0.1 % between runs, so one ABBA is
	// enough.
	const turns = 2
	for _, kind := range bothKinds {
		load := load{kinds: []string{kind}, wire: true, keys: heapObjects}
		all = append(all, measurement{heapTyped + kind, load, pair, []metric{heapPerObject}, turns})
		load.keep = projected
		all = append(all, measurement{heapProjected + kind, load, pair, []metric{heapPerObject}, turns})
	}
	return all
}
