package simulation

import (
	"fmt"
	"time"
)

// Cell says what is run: a number of objects, and a number of replicas that share them.
type Cell struct {
	Objects  int     `json:"objects"` // half of them are reconciled, and each of these has a child
	Replicas int     `json:"replicas"`
	Changes  float64 `json:"changes"` // of objects by other clients, a second
	Rate     float64 `json:"rate"`    // bytes a second that a replica receives and decodes, in a simulated run
	Caches   Caches  `json:"caches"`  // which replicas have caches
}

// Caches says which replicas of a simulated cell have caches. What the others would read is modelled.
type Caches string

// The values of Caches.
const (
	All   Caches = "all"
	Three Caches = "three" // the replica that leaves, the one that dies and the one that joins
	None  Caches = "none"  // and the API server has no objects: Leases and hand-overs alone are simulated
)

// These are the defaults of a Cell. The rate is the one of real runs: see docs/simulation.md.
const (
	DefaultChanges = 10
	DefaultRate    = 40e6
)

// These are the limits of a Cell.
const (
	minObjects, maxObjects   = 100, 10_000_000
	minReplicas, maxReplicas = 1, 50
	maxChanges               = 1000
	minRate, maxRate         = 1e5, 1e10
)

// validate returns an error that names the flag that is out of its range.
func (c Cell) validate() error {
	switch {
	case c.Objects < minObjects || c.Objects > maxObjects || c.Objects%2 != 0:
		return fmt.Errorf("--objects has %d; allowed are even numbers from %d to %d", c.Objects, minObjects, maxObjects)
	case c.Replicas < minReplicas || c.Replicas > maxReplicas:
		return fmt.Errorf("--replicas has %d; allowed is %d to %d", c.Replicas, minReplicas, maxReplicas)
	case c.Changes < 0 || c.Changes > maxChanges:
		return fmt.Errorf("--changes is %v; allowed is 0 to %d a second", c.Changes, maxChanges)
	case c.Caches != All && c.Caches != Three && c.Caches != None:
		return fmt.Errorf("--caches is %q; allowed are %s, %s and %s", c.Caches, All, Three, None)
	case c.Rate < minRate || c.Rate > maxRate:
		return fmt.Errorf("--rate is %v; allowed is %.0f to %.0f bytes a second", c.Rate, minRate, maxRate)
	}
	return nil
}

// Result is the outcome of a cell.
type Result struct {
	Cell
	Real      bool    `json:"real"`   // on a real API server
	Heap      int64   `json:"heap"`   // of each replica, on average: by how much the live heap grew
	Cached    int64   `json:"cached"` // of each replica, on average, as its cache estimates
	Fewest    int     `json:"fewest"` // objects of the replica that has the fewest
	Most      int     `json:"most"`
	Phases    []Phase `json:"phases"`
	Failures  int     `json:"failures"`  // of requests of living replicas
	FullBytes int64   `json:"fullBytes"` // of one read of both kinds
}

// These are the names of the phases, in their order.
const (
	started = "start"  // all replicas start, a second apart
	steady  = "steady" // other clients change objects, and nothing else happens
	joined  = "join"   // one more replica starts
	left    = "leave"  // a replica ends in order
	crashed = "crash"  // a replica dies; not with one replica
)

// Phase is a part of a run.
type Phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"` // of the run's clock
	All     Traffic `json:"all"`     // of all replicas
	Busiest Traffic `json:"busiest"` // of the replica that received the most bytes

	Moved    int     `json:"moved"`    // reconciled objects that another replica took over
	HandOver float64 `json:"handOver"` // seconds until the last of them was reconciled by its new owner
	Pause    float64 `json:"pause"`    // the longest time in which an object was not reconciled that is due each second
}

// phase returns the phase with a name.
func (r Result) phase(name string) (found Phase, ok bool) {
	for _, phase := range r.Phases {
		if phase.Name == name {
			return phase, true
		}
	}
	return found, false
}

// window is the shortest time of a phase. A Lease expires in it, and its slots are claimed.
const window = 30 * time.Second
