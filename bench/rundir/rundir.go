// Package rundir reads and writes the folder of a run of the comparison. The harness writes
// it; the report, the inspector and the goals read it.
//
//	DIR/run.json                     what was run, where and how: a Run
//	DIR/rounds/<id>.json             one Round; written when the round is over
//	DIR/rounds/<id>/                 artifacts of the round: proxy.jsonl, contender.log, ...
//	DIR/conformance/<contender>.txt  the conformance report, if this run checked the contender
//	DIR/prometheus/                  the data of a Prometheus, with all time series
//	DIR/ceiling.json                 the ideal client's rates, from which open loads are derived
//	DIR/series.openmetrics.gz        the time series of the report, kept when prometheus/ is not
//
// An interrupted run resumes with the rounds that are missing.
package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Run describes what was run, where and how.
type Run struct {
	Started  time.Time         `json:"started"`
	Machine  map[string]string `json:"machine"`  // cores, memory, processor, kernel, ...
	Versions map[string]string `json:"versions"` // of contenders, API server, etcd, languages; by name
	Builds   map[string]string `json:"builds"`   // by contender: the identity of its program, the same in all rounds
	Resync   map[string]string `json:"resync"`   // by contender: how often its cache reconciles objects that did not change
	// Settings has the settings of each contender, unless a round asks for others.
	Settings   map[string]Settings `json:"settings,omitempty"`
	Flags      []string            `json:"flags"`      // the flags that repeat the run
	Notes      []string            `json:"notes"`      // what else a reader has to know
	Contenders []string            `json:"contenders"` // in the order asked for
	Skipped    map[string]string   `json:"skipped"`    // contenders that were left out, and why
	Scenarios  []string            `json:"scenarios"`  // in the order asked for, each with its variant
	Turns      int                 `json:"turns"`
	Until      Until               `json:"until,omitzero"` // if set, Turns is the largest number of turns
}

// Until is the rule by which a scenario gets no further turn. It is fixed before the run starts.
type Until struct {
	Measure string  `json:"measure"` // a measure of package report
	Width   float64 `json:"width"`   // largest width of the 95 % intervals of all ratios to Bellerophon, as a share of the ratio
	Minimum int     `json:"minimum"` // fewest turns
}

// Settings describes how a contender is set up, in words.
type Settings struct {
	Workers    string `json:"workers"`          // concurrent reconciles
	HeapLimit  string `json:"heap"`             // GOMEMLIMIT, or -Xmx of Java
	Processors string `json:"processors"`       // GOMAXPROCS, or the threads of a runtime in another language
	Limits     string `json:"limits,omitempty"` // hard limits of CPU and memory, if there are any
}

// Round is one measurement of one contender in one scenario.
type Round struct {
	Scenario  string    `json:"scenario"` // such as burst, return or steady
	Variant   string    `json:"variant"`  // the scenario's size: n=5000, load=50, ...
	Contender string    `json:"contender"`
	Setting   string    `json:"setting"` // the contender's setting: default, workers=8, memory=256MiB, ...
	Turn      int       `json:"turn"`    // from 0; an odd turn goes through the contenders backwards
	Warm      bool      `json:"warm"`    // measured after a warm-up
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
	Exec      time.Time `json:"exec,omitzero"` // the last start of the contender's process
	Measured  Measured  `json:"measured"`
	Samples   Samples   `json:"samples,omitempty"`
	Rejected  string    `json:"rejected,omitempty"` // why the harness could not complete the round
	Failed    string    `json:"failed,omitempty"`   // why the contender did not complete the scenario
	Noisy     string    `json:"noisy,omitempty"`    // why the round may be unreliable; it counts
}

// Measured holds the measurements of a round. A measurement that the scenario does not make is
// absent.
type Measured map[Measure]float64

// Samples holds all latencies of a round, by the measure of their p99: Reaction99, Ready99 or ExecReady99. Rounds of
// before 25 November 2026 have the p99 in Measured instead, and no samples.
type Samples map[Measure]Histogram

// ID returns the name of the round's files.
func (r Round) ID() string {
	name := strings.Join([]string{r.Scenario, r.Variant, r.Contender, r.Setting, fmt.Sprint(r.Turn)}, "_")
	if r.Warm {
		name += "_warm"
	}
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune("/ :\\", c) {
			return '-'
		}
		return c
	}, name)
}

// MachineMoved begins Noisy of a round before which an ideal client took an unusual time. Rounds of before
// 25 November 2026 have that in Rejected.
const MachineMoved = "the ideal client took "

// IsComplete reports whether the scenario was completed, whatever the speed of the machine was. All
// complete rounds count.
func (r Round) IsComplete() bool {
	return r.Failed == "" && (r.Rejected == "" || strings.HasPrefix(r.Rejected, MachineMoved))
}

// Noise returns why a complete round may be unreliable, or "".
func (r Round) Noise() string {
	if r.Noisy == "" && r.IsComplete() {
		return r.Rejected
	}
	return r.Noisy
}

// Measure names a measurement. The unit is in the name; seconds and bytes are SI.
type Measure string

// The measurements. All are taken outside the contender, in the same way for every contender.
//
// Reads counts get and list requests. Opening a watch is not a read. The lists that fill a cache
// are not reads either: the lists of a resource before its first watch since the process started.
//
// ReadyMedian and Ready99 start at the answer to the creation, change or drift. Under an open load
// they start when the request was due. They end at the finished status or at the repair.
const (
	Objects        Measure = "objects"                // BellerophonSimple objects that converged
	Converge       Measure = "converge_seconds"       // first request of the load to the last finished status
	IdealConverge  Measure = "ideal_converge_seconds" // the ideal client's time in the same round, for IdealObjects objects
	IdealObjects   Measure = "ideal_objects"
	IdealReplicas  Measure = "ideal_replicas"        // replicas of each ideal object, as many as the scenario's objects have
	IdealAmong     Measure = "ideal_among"           // objects of the round that exist when the ideal client starts
	ContenderCPU   Measure = "contender_cpu_seconds" // user and system, from /proc
	ServerCPU      Measure = "server_cpu_seconds"    // of API server and etcd
	PeakMemory     Measure = "peak_rss_bytes"        // VmHWM
	SettledMemory  Measure = "settled_rss_bytes"     // once nothing happens any more
	Writes         Measure = "writes"                // the contender's requests that change something, without Events
	NeedlessWrites Measure = "needless_writes"       // writes whose answer has a version that existed before the write
	Reads          Measure = "reads"                 // see above
	ReactionMedian Measure = "reaction_p50_seconds"  // from the watch event, or the intended time of the change, to the object's next write
	Reaction99     Measure = "reaction_p99_seconds"
	ReadyMedian    Measure = "create_to_ready_p50_seconds" // see above
	Ready99        Measure = "create_to_ready_p99_seconds"
	FirstWrite     Measure = "exec_to_first_write_seconds" // from the start of the process
	Settled        Measure = "exec_to_settled_seconds"     // from the start of the process to the last write, get, list or event
	// ExecReadyMedian and ExecReady99 are over the objects that need work when the process starts, and ExecReadyLast is
	// the time of the last of them. They start at the start of the process and end at the finished status.
	ExecReadyMedian Measure = "exec_to_ready_p50_seconds"
	ExecReady99     Measure = "exec_to_ready_p99_seconds"
	ExecReadyLast   Measure = "exec_to_ready_last_seconds"
	GetCalls        Measure = "calls_get"  // requests about resources, by verb, without Events, leases and reviews
	ListCalls       Measure = "calls_list" // all lists, including lists that are not reads
	WatchCalls      Measure = "calls_watch"
	CreateCalls     Measure = "calls_create"
	UpdateCalls     Measure = "calls_update"
	PatchCalls      Measure = "calls_patch"
	DeleteCalls     Measure = "calls_delete" // deletions of objects and of collections
	RequestBytes    Measure = "request_bytes"
	ResponseBytes   Measure = "response_bytes"
	FailedWrites    Measure = "failed_writes"         // writes answered with an error, including conflicts; Writes includes them
	Unanswered      Measure = "unanswered_events"     // events that start a reaction and were followed by no write
	Unfinished      Measure = "unfinished_objects"    // objects that were deleted before they were finished; they are in no latency
	OfferedRate     Measure = "offered_per_second"    // objects per second of an open load
	Disturbance     Measure = "disturbance_seconds"   // how long the API server was disturbed
	Recovery        Measure = "recovery_seconds"      // end of the disturbance to the last repair
	RecoveryCalls   Measure = "calls_until_recovered" // requests about resources from the start of the disturbance to the last repair
	Relists         Measure = "relists"               // answered lists from then until the end of the window; later pages of a list do not count
	HeroRelists     Measure = "relists_sheroes"       // the same for one resource
	SetRelists      Measure = "relists_statefulsets"
	ServiceRelists  Measure = "relists_services"
	ConfigRelists   Measure = "relists_configmaps"
	PodRelists      Measure = "relists_pods"
	Watched         Measure = "exec_to_watched_seconds" // from the start of the process until it has listed and watches all its kinds
	StartCalls      Measure = "calls_of_start"          // all requests until the process is settled, with discovery, without Events, leases and reviews
	StartCPU        Measure = "start_cpu_seconds"       // from the start of the process until it is settled
	OpenWatches     Measure = "open_watches"            // when the process is settled after its start
	Connections     Measure = "open_connections"        // the same
	IdleCPU         Measure = "idle_cpu_per_second"     // while nothing happens
	IdleCalls       Measure = "idle_calls_per_minute"   // as StartCalls
	ChurnCPU        Measure = "churn_cpu_per_second"    // while objects come and go
	ChurnCalls      Measure = "churn_calls_per_minute"
	ChurnMemory     Measure = "churn_end_rss_bytes"
	ChurnSlope      Measure = "churn_rss_slope_percent" // slope of the resident memory an hour, in percent of its median
	ChurnMargin     Measure = "churn_rss_slope_margin"  // half of the 95 % interval of ChurnSlope, in percent too
	IdleSlope       Measure = "idle_rss_slope_percent"
	IdleMargin      Measure = "idle_rss_slope_margin"
	Window          Measure = "window_seconds" // the time over which CPU, requests and bytes are counted
)

// The measurements of several processes of one contender. The failover scenario measures from the death of the leader,
// and then from the SIGTERM to the next one. A time to finished ends when all objects are finished that were created
// before the first write of the successor.
const (
	FailoverWrite    Measure = "failover_to_first_write_seconds"
	FailoverFinished Measure = "failover_to_finished_seconds"
	HandoverWrite    Measure = "handover_to_first_write_seconds"
	HandoverFinished Measure = "handover_to_finished_seconds"
	StandbyRequests  Measure = "standby_requests_per_minute" // all requests about resources, also about Leases
	StandbyMemory    Measure = "standby_rss_bytes"
	Throughput       Measure = "objects_per_second"      // objects of a burst, divided by the time to converge
	MemberMemory     Measure = "member_rss_median_bytes" // of the processes that share objects, once nothing happens any more
	LargestMember    Measure = "member_rss_largest_bytes"
	Skew             Measure = "share_skew"   // the largest share of the objects in the processes, divided by the mean share
	Join             Measure = "join_seconds" // from the start of one more process until the last slot and object has its new owner
)

// WriteRun writes run.json.
func WriteRun(dir string, run Run) error { return write(filepath.Join(dir, "run.json"), run) }

// ReadRun reads run.json.
func ReadRun(dir string) (run Run, err error) { return run, read(filepath.Join(dir, "run.json"), &run) }

// WriteRound writes a completed round.
func WriteRound(dir string, round Round) error {
	return write(filepath.Join(dir, "rounds", round.ID()+".json"), round)
}

// Done reports whether the round was already written.
func Done(dir string, round Round) bool {
	_, err := os.Stat(filepath.Join(dir, "rounds", round.ID()+".json"))
	return err == nil
}

// ReadRounds reads all rounds and returns them in the order in which they started.
func ReadRounds(dir string) ([]Round, error) {
	files, err := filepath.Glob(filepath.Join(dir, "rounds", "*.json"))
	if err != nil {
		return nil, fmt.Errorf("find the rounds of %s: %w", dir, err)
	}
	rounds := make([]Round, len(files))
	for i, file := range files {
		if err := read(file, &rounds[i]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(rounds, func(a, b Round) int { return a.Start.Compare(b.Start) })
	return rounds, nil
}

func read(file string, into any) error {
	body, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read a run: %w; give the folder of a run of the comparison", err)
	}
	if err != nil {
		return fmt.Errorf("read a run: %w", err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	return nil
}

// write encodes the value and replaces the file atomically.
func write(file string, value any) error {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", file, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("make the folder of %s: %w", file, err)
	}
	if err := os.WriteFile(file+".new", append(body, '\n'), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
