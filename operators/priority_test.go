package operators

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func requestOf(name string, routine bool, causes ...streams.EventType) Request {
	made := Request{Controller: "c", NamespacedName: types.NamespacedName{Name: name}, Routine: routine}
	for _, cause := range causes {
		made.Causes = append(made.Causes, streams.Cause{Type: cause})
	}
	return made
}

// priorities is a schedule of one controller with one worker.
type priorities struct {
	*schedule
	now time.Time
}

func newPriorities() *priorities {
	controllers := NewControllers(map[string]Controller{"c": {Reconcile: missing("c")}})
	made := &priorities{newSchedule(1, Backoff{}, nil), time.Unix(0, 0)}
	made.setRoster(controllers.published.Load())
	made.openGate(made.now)
	return made
}

func (p *priorities) ask(request Request) {
	p.now = p.now.Add(time.Millisecond)
	p.add(&request, p.now)
}

// run starts and finishes the task whose turn it is, and returns its name.
func (p *priorities) run() string {
	p.clock = p.now
	next := p.start()
	name := next.request.Name
	p.finish(next, &Result{Request: next.request, Outcome: Succeeded}, p.now)
	return name
}

func TestAnEventGoesBeforeAListAndAListBeforeARoutineCheck(t *testing.T) {
	p := newPriorities()
	p.ask(requestOf("checked", true))
	p.ask(requestOf("listed", false, streams.Listed))
	p.ask(requestOf("new", false, streams.Applied))
	p.ask(requestOf("timer", false))
	var order []string
	for p.ready() {
		order = append(order, p.run())
	}
	if want := []string{"new", "timer", "listed", "checked"}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
}

// changed returns a request for an object that a client added or changed.
func changed(name string, causes ...streams.EventType) Request {
	made := requestOf(name, false, causes...)
	made.SpecChanged = true
	return made
}

func TestAnObjectThatAClientChangedGoesBeforeFollowUps(t *testing.T) {
	p := newPriorities()
	p.ask(requestOf("timer", false))
	p.ask(requestOf("child", false, streams.Applied))
	p.ask(requestOf("raised", false, streams.Applied))
	p.ask(changed("listed", streams.Listed)) // A list adds all objects.
	p.ask(changed("added", streams.Applied))
	p.ask(changed("raised", streams.Applied))
	if first, second := p.run(), p.run(); first != "added" || second != "raised" {
		t.Errorf("first come %s and %s, want added and raised", first, second)
	}
	for _, want := range []string{"timer", "child", "listed"} {
		if next := p.run(); next != want {
			t.Errorf("then comes %s, want %s", next, want)
		}
	}
}

func TestAnObjectWhoseAttemptFailedIsRetriedAfterTheChangesOfClients(t *testing.T) {
	p := newPriorities()
	p.ask(changed("failing", streams.Applied))
	p.clock = p.now
	failed := p.start()
	p.finish(failed, &Result{Request: failed.request, Outcome: Failed}, p.now)
	p.now = p.now.Add(time.Hour)
	p.tick(p.now)
	p.ask(changed("added", streams.Applied))
	if first := p.run(); first != "added" {
		t.Errorf("first comes %s, want added", first)
	}
}

func TestFollowUpsAreWorkedOnWhileClientsKeepAddingObjects(t *testing.T) {
	p := newPriorities()
	for i := range 10 {
		p.ask(requestOf(fmt.Sprint("child", i), false, streams.Applied))
	}
	followUps := 0
	for i := range 40 {
		p.ask(changed(fmt.Sprint("added", i), streams.Applied))
		if strings.HasPrefix(p.run(), "child") {
			followUps++
		}
	}
	if followUps != 10 {
		t.Errorf("%d of 10 follow-ups were worked on in 40 turns", followUps)
	}
}

func TestAListedObjectBecomesUrgentWithItsFirstEvent(t *testing.T) {
	p := newPriorities()
	for i := range 10 {
		p.ask(requestOf(fmt.Sprint("old", i), false, streams.Listed))
	}
	p.ask(requestOf("old7", false, streams.Applied))
	if first := p.run(); first != "old7" {
		t.Errorf("first comes %s", first)
	}
	for i := range 9 {
		if !p.ready() {
			t.Fatalf("after %d of 9 others nothing is ready", i)
		}
		p.run()
	}
	if p.ready() {
		t.Errorf("%s is reconciled twice", p.run())
	}
}

func TestEveryFourthTurnGoesToTheTaskThatHasWaitedTheLongest(t *testing.T) {
	p := newPriorities()
	p.ask(requestOf("checked", true))
	p.ask(requestOf("listed", false, streams.Listed))
	for i := range 10 {
		p.ask(requestOf(fmt.Sprint("new", i), false, streams.Applied))
	}
	var order []string
	for range 8 {
		order = append(order, p.run())
	}
	if want := []string{"new0", "new1", "new2", "checked", "new3", "new4", "new5", "listed"}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
}

// Whatever comes, each object that was asked for is reconciled once more, and nothing is left over.
func TestNoPriorityLosesOrRepeatsARequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPriorities()
		waits := map[string]bool{}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if p.ready() && rapid.Bool().Draw(t, "run") {
				name := p.run()
				if !waits[name] {
					t.Fatalf("%s is reconciled without a request", name)
				}
				delete(waits, name)
				continue
			}
			name := fmt.Sprint(rapid.IntRange(0, 20).Draw(t, "name"))
			kinds := [][]streams.EventType{nil, {streams.Listed}, {streams.Applied}, {streams.Listed, streams.Deleted}}
			request := requestOf(name, rapid.Bool().Draw(t, "routine"), rapid.SampledFrom(kinds).Draw(t, "causes")...)
			request.SpecChanged = rapid.Bool().Draw(t, "changed")
			p.ask(request)
			waits[name] = true
		}
		for p.ready() {
			delete(waits, p.run())
		}
		if len(waits) > 0 || p.queued != 0 || p.waiting != 0 {
			t.Fatalf("left over are %v; %d are queued, and %d wait", waits, p.queued, p.waiting)
		}
		for _, queue := range p.queues {
			for i := range queue.queued.lines {
				if left := queue.queued.lines[i].len(); left > 0 {
					t.Fatalf("line %d has %d stale entries", i, left)
				}
			}
		}
	})
}
