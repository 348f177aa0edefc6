// Package outcome is what a run of the comparison leaves in its folder: written by the
// harness, read by the report, the inspector and the goals.
//
//	DIR/run.json                     what was run, where and how: a Run
//	DIR/rounds/<id>.json             one Round each; it is there when the round is over
//	DIR/rounds/<id>/                 what the round left: proxy.jsonl, contender.log, ...
//	DIR/conformance/<contender>.txt  what a check of it said, if this run made one
//	DIR/prometheus/                  the data of a Prometheus, with all time series
//
// A run that was interrupted goes on with the rounds that are not there.
package outcome

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

// Run says what was run.
type Run struct {
	Started    time.Time         `json:"started"`
	Machine    map[string]string `json:"machine"`    // cores, memory, processor, kernel, ...
	Versions   map[string]string `json:"versions"`   // of contenders, API server, etcd, languages
	Builds     map[string]string `json:"builds"`     // of contenders: the identity of the very program, which is one in all rounds
	Resync     map[string]string `json:"resync"`     // of contenders' caches: how often they reconcile though nothing changed
	Flags      []string          `json:"flags"`      // how to repeat it
	Notes      []string          `json:"notes"`      // what a reader has to know beside this
	Contenders []string          `json:"contenders"` // in the order asked for
	Skipped    map[string]string `json:"skipped"`    // contenders that were left out, and why
	Scenarios  []string          `json:"scenarios"`  // in the order asked for, each with its variant
	Turns      int               `json:"turns"`
}

// Round is one contender in one scenario, once.
type Round struct {
	Scenario  string    `json:"scenario"` // such as burst, return or steady
	Variant   string    `json:"variant"`  // of the scenario: n=5000, load=50, ...
	Contender string    `json:"contender"`
	Setting   string    `json:"setting"` // of the contender: default, workers=8, memory=256MiB, ...
	Turn      int       `json:"turn"`    // from 0; odd ones go through the contenders backwards
	Warm      bool      `json:"warm"`    // after a warm-up
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
	Measured  Measured  `json:"measured"`
	Rejected  string    `json:"rejected,omitempty"` // why the round does not count
	Failed    string    `json:"failed,omitempty"`   // why the contender did not get through
	Noisy     string    `json:"noisy,omitempty"`    // why the round should not count, though it does: there is none that is better
}

// Measured are the measurements of a round. What a scenario does not measure is not there.
type Measured map[Measure]float64

// ID names the files of a round.
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

// Counts says whether a round belongs into medians.
func (r Round) Counts() bool { return r.Rejected == "" && r.Failed == "" }

// Measure names a measurement. The unit is in the name; seconds and bytes are SI.
type Measure string

// The measurements. Every one is taken from outside, in the same way for all.
const (
	Objects        Measure = "objects"                // BellerophonSimple objects that converged
	Converge       Measure = "converge_seconds"       // from the first request of the load to the last finished status
	IdealConverge  Measure = "ideal_converge_seconds" // of the ideal client in the same round, for as many objects as follows
	IdealObjects   Measure = "ideal_objects"
	IdealReplicas  Measure = "ideal_replicas"        // of each of them: as many as the scenario's objects have
	IdealAmong     Measure = "ideal_among"           // how many objects of the round are there already
	ContenderCPU   Measure = "contender_cpu_seconds" // user and system, from /proc
	ServerCPU      Measure = "server_cpu_seconds"    // API server and etcd
	PeakMemory     Measure = "peak_rss_bytes"        // VmHWM
	SettledMemory  Measure = "settled_rss_bytes"     // when nothing happens any more
	Writes         Measure = "writes"                // requests of the contender that change something, events left out
	NeedlessWrites Measure = "needless_writes"       // those whose answer has the version that was there before
	Reads          Measure = "reads"                 // get and list requests; opening a watch is none, nor are the lists with which a cache begins: those of a resource before its first watch since the process was started
	ReactionMedian Measure = "reaction_p50_seconds"  // watch event out to first write in, from the intended time of the load
	Reaction99     Measure = "reaction_p99_seconds"
	ReadyMedian    Measure = "create_to_ready_p50_seconds" // from the answer to the creation, change or drift, or, of an open load, from when it was due, to the finished status or the repair
	Ready99        Measure = "create_to_ready_p99_seconds"
	FirstWrite     Measure = "exec_to_first_write_seconds" // from starting the process
	Settled        Measure = "exec_to_settled_seconds"     // from starting the process to the last write, get, list or event
	GetCalls       Measure = "calls_get"                   // calls about resources, by verb; Events, leases and reviews are left out
	ListCalls      Measure = "calls_list"                  // all lists: also those that are no reads
	WatchCalls     Measure = "calls_watch"
	CreateCalls    Measure = "calls_create"
	UpdateCalls    Measure = "calls_update"
	PatchCalls     Measure = "calls_patch"
	DeleteCalls    Measure = "calls_delete" // of objects and of collections
	RequestBytes   Measure = "request_bytes"
	ResponseBytes  Measure = "response_bytes"
	FailedWrites   Measure = "failed_writes"      // writes that were answered with an error, conflicts included; they are among the writes
	Unanswered     Measure = "unanswered_events"  // events that count for the reaction, but no write came after them
	Unfinished     Measure = "unfinished_objects" // objects that were deleted before they were as far as was wanted; they are in no latency
	OfferedRate    Measure = "offered_per_second" // objects a second of an open load
	Window         Measure = "window_seconds"     // the time that CPU, requests and bytes are of
)

// WriteRun writes run.json.
func WriteRun(dir string, run Run) error { return write(filepath.Join(dir, "run.json"), run) }

// ReadRun reads run.json.
func ReadRun(dir string) (run Run, err error) { return run, read(filepath.Join(dir, "run.json"), &run) }

// WriteRound writes a round that is over.
func WriteRound(dir string, round Round) error {
	return write(filepath.Join(dir, "rounds", round.ID()+".json"), round)
}

// Done says whether a round is there already.
func Done(dir string, round Round) bool {
	_, err := os.Stat(filepath.Join(dir, "rounds", round.ID()+".json"))
	return err == nil
}

// ReadRounds reads all rounds, in the order of their start.
func ReadRounds(dir string) ([]Round, error) {
	files, err := filepath.Glob(filepath.Join(dir, "rounds", "*.json"))
	if err != nil {
		return nil, fmt.Errorf("finding the rounds of %s: %w", dir, err)
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
		return fmt.Errorf("there is no %s; give the folder of a run of the comparison: %w", file, err)
	}
	if err != nil {
		return fmt.Errorf("reading an outcome: %w", err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	return nil
}

// write writes a file as a whole or not at all.
func write(file string, value any) error {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", file, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("making the folder of %s: %w", file, err)
	}
	if err := os.WriteFile(file+".new", append(body, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}
