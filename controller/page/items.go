package page

import (
	"math"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// The bounds of an attempt on the page.
const (
	maxError  = 512 // bytes of a message
	maxCauses = 16
	maxWrites = 16
)

// items is what has happened in the pipeline since the last items. All times are milliseconds since 1970.
type items struct {
	Time     int64     `json:"t"`
	Events   []event   `json:"events"`
	Changes  []change  `json:"changes"`
	Attempts []attempt `json:"attempts"`
	LeftOut  leftOut   `json:"leftOut"`
}

// leftOut counts what the sampling left out.
type leftOut struct {
	Events   int `json:"events"`
	Changes  int `json:"changes"`
	Attempts int `json:"attempts"`
}

// event entered the cache, after the debounce.
type event struct {
	Time      int64  `json:"t"`
	Received  int64  `json:"received"`
	Type      string `json:"type"`
	Kind      string `json:"kind"`
	Namespace string `json:"ns"`
	Name      string `json:"name"`
	Version   string `json:"rv"`
	Coalesced int    `json:"coalesced"` // earlier events of the object that it replaced
}

// change left the cache.
type change struct {
	Time      int64  `json:"t"`
	Change    string `json:"change"`
	Kind      string `json:"kind"`
	Namespace string `json:"ns"`
	Name      string `json:"name"`
	Version   string `json:"rv"`
}

// attempt is an attempt that has ended. Its durations are in milliseconds.
type attempt struct {
	ID         string   `json:"id"`
	Controller string   `json:"controller"`
	Namespace  string   `json:"ns"`
	Name       string   `json:"name"`
	Started    int64    `json:"started"`
	Took       float64  `json:"took"`
	Queued     *float64 `json:"queued"` // null if it is not known
	Outcome    string   `json:"outcome"`
	Error      string   `json:"error"`
	Again      float64  `json:"again"`
	Causes     []cause  `json:"causes"`
	Writes     []write  `json:"writes"`
}

// cause is an event that led to an attempt.
type cause struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Version  string `json:"rv"`
	Received int64  `json:"received"`
}

// write is a write of an attempt that succeeded.
type write struct {
	Time      int64  `json:"t"`
	Verb      string `json:"verb"`
	Kind      string `json:"kind"`
	Namespace string `json:"ns"`
	Name      string `json:"name"`
	Version   string `json:"rv"`
}

// eventItem returns an event as an item. Only names and versions of the object are in it.
func eventItem(of *streams.Event, now time.Time) event {
	return event{
		Time: now.UnixMilli(), Received: of.Received.UnixMilli(), Type: of.Type.String(), Kind: of.Key.GroupKind.String(),
		Namespace: of.Key.Namespace, Name: of.Key.Name, Version: of.ResourceVersion, Coalesced: len(of.Coalesced),
	}
}

// changeItem returns a change as an item.
func changeItem(of *streams.Change, now time.Time) change {
	made := change{Time: now.UnixMilli(), Change: strings.ToLower(of.Type.String()), Kind: of.Key.GroupKind.String(), Namespace: of.Key.Namespace, Name: of.Key.Name}
	switch {
	case of.New != nil:
		made.Version = of.New.GetResourceVersion()
	case of.Old != nil:
		made.Version = of.Old.GetResourceVersion()
	}
	return made
}

// attemptItem returns a result as an item.
func attemptItem(of *operators.Result, _ time.Time) attempt {
	made := attempt{
		ID: operators.AttemptID(of.Controller, of.NamespacedName, of.Started), Controller: of.Controller, Namespace: of.Namespace, Name: of.Name,
		Started: of.Started.UnixMilli(), Took: milliseconds(of.Duration), Queued: new(milliseconds(of.Queued)), Outcome: string(of.Outcome),
		Again: milliseconds(of.RequeueAfter), Causes: []cause{}, Writes: []write{},
	}
	if of.Err != nil {
		made.Error = of.Err.Error()
		if len(made.Error) > maxError {
			made.Error = strings.ToValidUTF8(made.Error[:maxError], "") + "…"
		}
	}
	for _, each := range of.Causes[max(0, len(of.Causes)-maxCauses):] {
		if each.Type != 0 { // A zero cause stands for earlier ones.
			made.Causes = append(made.Causes, cause{each.Key.GroupKind.String(), each.Key.Name, each.ResourceVersion, each.Received.UnixMilli()})
		}
	}
	for i := range of.Writes[:min(len(of.Writes), maxWrites)] {
		each := &of.Writes[i]
		made.Writes = append(made.Writes, write{each.Answered.UnixMilli(), each.Verb, each.Key.GroupKind.String(), each.Key.Namespace, each.Key.Name, each.ResourceVersion})
	}
	return made
}

// milliseconds returns a duration with microseconds as its fraction.
func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}
