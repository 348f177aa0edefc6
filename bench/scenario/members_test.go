package scenario

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
	controllershards "github.com/bellerophon-io/bellerophon/controller/shards"
	"k8s.io/apimachinery/pkg/types"
)

// mortal is a process that ends when the test closes its channel, or when it is killed or stopped.
type mortal struct{ done chan struct{} }

var errDied = errors.New("it died")

func (p mortal) PID() int                    { return 1 }
func (p mortal) Ready(context.Context) error { return nil }
func (p mortal) Done() <-chan struct{}       { return p.done }
func (p mortal) Err() error                  { return errDied }

func (p mortal) Kill() error {
	close(p.done)
	return nil
}

func (p mortal) Stop() (time.Duration, error) {
	if isClosed(p.done) {
		return 0, errDied
	}
	close(p.done)
	return 0, nil
}

// newMortals returns a group with a number of processes.
func newMortals(t *testing.T, n int) (context.Context, *members) {
	t.Helper()
	w := &World{Progress: func(string, int, int) {}, StartMember: func(context.Context, Role) (Member, *proxy.Proxy, error) {
		return mortal{make(chan struct{})}, nil, nil
	}}
	ctx, m := w.newMembers(t.Context(), Role{})
	for range n {
		if _, err := m.add(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return ctx, m
}

func TestAProcessThatEndsByItselfEndsTheScenarioAndIsItsFailure(t *testing.T) {
	ctx, m := newMortals(t, 2)
	if err := m.all[1].Kill(); err != nil { // Without m.kill, the scenario does not know.
		t.Fatal(err)
	}
	<-ctx.Done()
	var failure *Failure
	if cause := context.Cause(ctx); !errors.As(cause, &failure) || !errors.Is(cause, errDied) {
		t.Errorf("the scenario ended by %v, want the failure of the process", cause)
	}
	if err := m.stop(t.Context(), errors.New("a request was cancelled")); !errors.As(err, &failure) || !strings.Contains(err.Error(), "it died") {
		t.Errorf("the error is %v, want the failure of the process", err)
	}
}

func TestAProcessThatTheScenarioEndsIsNoFailure(t *testing.T) {
	ctx, m := newMortals(t, 3)
	if err := m.kill(m.all[0]); err != nil {
		t.Fatal(err)
	}
	if err := m.leave(m.all[1]); err != nil {
		t.Fatal(err)
	}
	if err := m.stop(t.Context(), nil); err != nil {
		t.Errorf("the error is %v, want none", err)
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		t.Errorf("the context of the scenario ended by %v, want the end of the group", cause)
	}
}

func TestASuccessionIsMeasuredFromTheSuccessorsFirstWriteAndNotFromItsLease(t *testing.T) {
	record := proxy.Record{Calls: []proxy.Call{
		write(5, "configmaps", "a"), // Before the end of the leader: a write of a standby that does not stand by.
		{At: at(12), Verb: "update", Group: "coordination.k8s.io", Resource: "leases"},
		{At: at(13), Verb: "get", Resource: "sheroes"},
		write(30, "configmaps", "b"),
		write(20, "configmaps", "c"), // Calls are recorded in the order in which they end.
		write(25, "configmaps", "d"),
	}}
	if first, is := firstWrite(record, at(10)); !is || !first.Equal(at(20)) {
		t.Errorf("the first write is at %v: %v, want 20 ms", first.Sub(began), is)
	}
	if _, is := firstWrite(record, at(31)); is {
		t.Error("there is a first write after the last one")
	}
	if got := withLeases(record, at(5), at(20)); got != 3 {
		t.Errorf("%d requests in the first 20 ms, want 3: the one about the Lease counts", got)
	}
}

func TestTheTimeToFinishedIsOfTheObjectsThatWaitedForTheSuccessor(t *testing.T) {
	w := &World{Judge: &Judge{finished: newBoard()}}
	created := map[types.NamespacedName]time.Time{name("waited"): at(5), name("later"): at(21)}
	for object := range created {
		w.Judge.finished.want(object, 1)
	}
	if got := w.lastBefore(at(20), created); !got.Equal(at(20)) {
		t.Errorf("with no finished object it is %v, want the first write", got.Sub(began))
	}
	w.Judge.finished.mark(name("waited"), 1, at(40))
	w.Judge.finished.mark(name("later"), 1, at(50))
	if got := w.lastBefore(at(20), created); !got.Equal(at(40)) {
		t.Errorf("it is %v, want 40 ms", got.Sub(began))
	}
}

func TestTheSkewIsOfTheObjectsWhoseChildrenAProcessCreated(t *testing.T) {
	create := func(ms int, resource, name string) proxy.Call {
		call := write(ms, resource, name)
		call.Verb, call.Code = "create", 201
		return call
	}
	refused := create(12, "services", "c")
	refused.Code = 409
	record := proxy.Record{Calls: []proxy.Call{
		create(5, "services", "early"), create(10, "services", "a"), create(11, "configmaps", "a"), create(12, "services", "b"), refused,
		write(13, "services", "d"), create(14, "events", "e"),
	}}
	if got := createdFor(record, at(10)); got != 2 {
		t.Errorf("children of %d objects were created, want those of a and b", got)
	}
}

func TestObjectsAreSharedOnceAllSlotsHaveAnOwnerInEvenParts(t *testing.T) {
	slots := func(from, to int) (set controllershards.Set) {
		for slot := from; slot <= to; slot++ {
			set[slot/64] |= 1 << (slot % 64)
		}
		return set
	}
	for text, test := range map[string]struct {
		owners map[string]controllershards.Set
		n      int
		want   bool
	}{
		"alone":                  {map[string]controllershards.Set{"a": slots(0, 255)}, 1, true},
		"even":                   {map[string]controllershards.Set{"a": slots(0, 139), "b": slots(140, 255)}, 2, true},
		"one has too much":       {map[string]controllershards.Set{"a": slots(0, 159), "b": slots(160, 255)}, 2, false},
		"a slot has no owner":    {map[string]controllershards.Set{"a": slots(0, 127), "b": slots(129, 255)}, 2, false},
		"a process is missing":   {map[string]controllershards.Set{"a": slots(0, 255)}, 2, false},
		"one more has no slot":   {map[string]controllershards.Set{"a": slots(0, 127), "b": slots(128, 255), "c": {}}, 2, false},
		"nobody has a Lease yet": {nil, 1, false},
	} {
		if got := areShared(test.owners, test.n); got != test.want {
			t.Errorf("%s: shared is %v, want %v", text, got, test.want)
		}
	}
}
