package why_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/why"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/history"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local)

func at(after time.Duration) *time.Time { return new(noon.Add(after)) }

func object(kind, name, version string) history.Object {
	return history.Object{Kind: kind, Namespace: "stables", Name: name, ResourceVersion: version}
}

// answer has an attempt of each sort.
func answer() history.Answer {
	return history.Answer{Time: noon.Add(time.Minute), Controllers: []history.Controller{{
		Name: "riders", Kind: "Rider.acme.io", Cached: true, Level: cache.Settled, Missing: []string{"the rider chimera"}, RunningSince: at(58 * time.Second),
		Attempts: []history.Attempt{{
			ID: "0123456789abcdef", Attempt: 1, Started: noon, Seconds: .25, Outcome: "success",
			Causes: []history.Cause{
				{Object: object("Rider.acme.io", "pegasus", "7"), Event: "Applied", Received: noon.Add(-40 * time.Millisecond), Change: "updated", Fields: []string{"spec.horse", "spec.wings"}, Managers: []history.Manager{{Name: "kubectl-edit", Operation: "Update", Time: noon}}},
				{Object: object("Stable.acme.io", "north", "8"), Event: "Applied", Received: noon.Add(-30 * time.Millisecond), Change: "updated", Fields: []string{"Size"}, Partial: true, WrittenBy: "stables ffff"},
				{Object: object("Stable.acme.io", "south", "9"), Event: "Listed", Received: noon.Add(-3 * time.Hour)},
			},
			Waits: []history.Wait{{For: history.WaitDebounce, Seconds: .01}, {For: history.WaitQueue, Seconds: 3}},
			Writes: []history.Write{
				{Object: object("Pod", "pegasus-0", "10"), Verb: "apply", Answered: noon, Seconds: .004, Fields: []string{"spec.image"}, Seen: at(2 * time.Millisecond)},
				{Object: object("Pod", "pegasus-1", ""), Verb: "delete", Answered: noon},
			},
		}, {
			ID: "1123456789abcdef", Attempt: 2, Started: noon.Add(time.Second), Outcome: "error", Error: "no hay", Again: 90, LeftOut: true,
			Calls: []history.Call{
				{Method: "GET", Path: "/apis/acme.io/v1/stables/north", Code: 200, Seconds: .002}, {Method: "PATCH", Path: "/api/v1/pods/x", Code: 200},
				{Method: "PATCH", Path: "/api/v1/pods/y", Code: 409, Seconds: .003}, {Method: "DELETE", Path: "/api/v1/pods/z", Seconds: 30},
			},
		}},
	}}}
}

const printed = `Rider.acme.io stables/pegasus, controller riders, level of sync Settled
  the next level waits for the rider chimera
12:00:00.000  an attempt succeeded after 250 ms  0123456789abcdef
  because  Rider.acme.io pegasus@7 was updated: spec.horse, spec.wings, by the field manager kubectl-edit, 40 ms before
  because  Stable.acme.io north@8 was updated: Size (of what the cache keeps), written by stables ffff, 30 ms before
  because  Stable.acme.io south@9 was in a list, 3 h before
  waited   10 ms in the debounce, 3.0 s for a worker
  wrote    apply Pod pegasus-0@10: spec.image, answered after 4 ms, seen 2 ms later
  wrote    delete Pod pegasus-1
12:00:01.000  an attempt failed after 0 ms, number 2 in a row  1123456789abcdef
  because  a retry, a timer or a stream asked for it
  because  of more events, which are left out
  asked    GET /apis/acme.io/v1/stables/north: 200 OK after 2 ms
  asked    PATCH /api/v1/pods/y: 409 Conflict after 3 ms
  asked    DELETE /api/v1/pods/z: no answer after 30.0 s
  error    no hay
  next     after 90.0 s, or with an event
  an attempt has run for 2.0 s
`

func TestAnAnswerIsPrintedForAPerson(t *testing.T) {
	var out bytes.Buffer
	why.NewPrinter(screen.To(&out)).Print(answer(), "riders/pegasus", "stables", false)
	if out.String() != printed {
		t.Errorf("it prints\n%s, want\n%s", out.String(), printed)
	}
}

func TestEachAttemptIsPrintedOnceWithItsEchoes(t *testing.T) {
	var out bytes.Buffer
	printer := why.NewPrinter(screen.To(&out))
	first := answer()
	of := &first.Controllers[0]
	of.RunningSince, of.Attempts = nil, of.Attempts[:1]
	printer.Print(first, "riders/pegasus", "stables", true)
	if strings.Contains(out.String(), "succeeded") {
		t.Errorf("before the watch has shown its writes, it prints\n%s", out.String())
	}
	of.Attempts[0].Writes[1].Seen = at(time.Second)
	printer.Print(first, "riders/pegasus", "stables", true)
	printer.Print(first, "riders/pegasus", "stables", true)
	if said := out.String(); strings.Count(said, "succeeded") != 1 || strings.Count(said, "level of sync") != 1 || !strings.Contains(said, "seen 1.0 s later") {
		t.Errorf("it prints\n%s", said)
	}
}

func TestSilenceHasAReason(t *testing.T) {
	for want, of := range map[string]history.Controller{
		"the first one runs":                  {RunningSince: at(0)},
		"the cache does not have the object":  {},
		"the controller may wait for":         {Cached: true, Missing: []string{"Pod"}},
		"older than the history, or another ": {Cached: true},
	} {
		var out bytes.Buffer
		why.NewPrinter(screen.To(&out)).Print(history.Answer{Time: noon, Controllers: []history.Controller{of}}, "riders/x", "", true)
		if !strings.Contains(out.String(), want) {
			t.Errorf("it prints\n%s, want %q", out.String(), want)
		}
	}
}
