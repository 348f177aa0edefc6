// Package introspection has the answers of /debug/manager and /debug/tree: what a manager does, and the objects that it knows
// with their children. The answers have names and numbers, and no values of objects.
package introspection

import (
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/history"
)

// State is the answer of /debug/manager.
type State struct {
	Time        time.Time    `json:"time"`
	Started     time.Time    `json:"started"` // when the manager was made: another one answers if it differs
	Level       cache.Level  `json:"level"`
	Next        *NextLevel   `json:"next,omitempty"` // missing at the highest level
	Notes       []string     `json:"notes,omitempty"`
	Leader      *Leader      `json:"leader,omitempty"` // missing without leader election
	Workers     int          `json:"workers"`          // that all controllers share
	Loop        float64      `json:"loopSeconds"`      // the smoothed duration of the control loop; 0 before the first measurement
	Quiet       float64      `json:"quietSeconds"`     // without a change, until the cache is settled
	Controllers []Controller `json:"controllers"`
	Kinds       []Kind       `json:"kinds"`
	Stages      []Stage      `json:"stages"` // in the order of the pipeline
}

// NextLevel is the level above the one that is reached, and what it waits for.
type NextLevel struct {
	Level   cache.Level `json:"level"`
	Missing []string    `json:"missing"`
}

// Leader is the election of a leader, as a replica sees it.
type Leader struct {
	Leads    bool   `json:"leads"` // whether this replica leads
	Identity string `json:"identity"`
	Holder   string `json:"holder,omitempty"` // the identity in the Lease
}

// Controller is the state of a controller.
type Controller struct {
	Name       string      `json:"name"`
	State      string      `json:"state"` // standing by, waiting for kinds, joining, working
	Level      cache.Level `json:"level"`
	Next       *NextLevel  `json:"next,omitempty"`
	WaitsFor   []string    `json:"waitsFor,omitempty"` // kinds that the server does not serve or forbids
	Queued     int64       `json:"queued"`             // keys that are queued, or soon due again
	Held       int64       `json:"held"`               // some of the queued keys: they wait until the kinds are current
	InFlight   []Attempt   `json:"inFlight"`
	Attempts   int64       `json:"attempts"`   // that have ended since the controller came
	Errors     int64       `json:"errors"`     // some of the attempts: they failed
	Writes     int64       `json:"writes"`     // of the attempts, that succeeded
	Unfinished int         `json:"unfinished"` // keys that are due again, or have failed for good
	Failed     int         `json:"failed"`     // some of the unfinished: their last attempt failed
	Failing    int         `json:"failing"`    // some of the unfinished: failed three times in a row or more
	Terminal   int         `json:"terminal"`   // some of the unfinished: failed for good
	Backoffs   []Failure   `json:"backoffs"`   // the first keys whose last attempt failed, by name
	Slowest    []Slow      `json:"slowest"`    // keys by the duration of their last attempts
	Patterns   []Pattern   `json:"patterns"`   // that go on
}

// Attempt is an attempt that runs.
type Attempt struct {
	Key   string    `json:"key"`
	Since time.Time `json:"since"`
}

// Failure is a key whose last attempt failed.
type Failure struct {
	Key      string     `json:"key"`
	Failures int        `json:"failures"` // in a row
	Reason   string     `json:"reason"`   // without the message of the error
	Terminal bool       `json:"terminal,omitempty"`
	Due      *time.Time `json:"due,omitempty"` // when the next attempt is due
}

// Slow is the last attempt for a key.
type Slow struct {
	Key     string    `json:"key"`
	Seconds float64   `json:"seconds"`
	ID      string    `json:"id"` // the reconcileID of logs
	Ended   time.Time `json:"ended"`
}

// Pattern is a pattern of attempts that does not end by itself.
type Pattern struct {
	Key       string   `json:"key"`
	Pattern   string   `json:"pattern"`          // fight or hot_loop
	Written   string   `json:"written"`          // the object that is written again and again
	Fields    []string `json:"fields,omitempty"` // the paths that both sides of a fight change
	Managers  []string `json:"managers,omitempty"`
	Rounds    int      `json:"rounds"`
	PerSecond float64  `json:"roundsPerSecond"` // since the pattern began
}

// PatternOf returns a finding as a pattern.
func PatternOf(of *history.Finding) Pattern {
	shown := Pattern{Key: of.Object.String(), Pattern: string(of.Pattern), Written: of.Written.String(), Fields: of.Fields, Managers: of.Managers, Rounds: of.Rounds}
	if took := of.Last.Sub(of.Since).Seconds(); took > 0 {
		shown.PerSecond = float64(of.Rounds) / took
	}
	return shown
}

// Kind is a kind that controllers name.
type Kind struct {
	Kind        string      `json:"kind"`
	Use         string      `json:"use"` // watched, on demand, live
	Controllers []string    `json:"controllers"`
	Watch       string      `json:"watch,omitempty"` // listing, watching, backing_off
	Level       cache.Level `json:"level"`
	Counts      bool        `json:"counts"` // for the level of the manager
	Objects     int         `json:"objects"`
	Bytes       int64       `json:"bytes"` // an estimate
	LastEvent   *time.Time  `json:"lastEvent,omitempty"`
}

// Stage is a stage of the pipeline: the items that it has received, sent and holds back.
type Stage struct {
	Name    string `json:"name"`
	In      int64  `json:"in"`
	Out     int64  `json:"out"`
	Waiting int64  `json:"waiting"`
}
