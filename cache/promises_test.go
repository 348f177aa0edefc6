package cache_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// at returns events as received now.
func at(events ...streams.Event) []streams.Event {
	for i := range events {
		events[i].Received = time.Now()
	}
	return events
}

func TestAVersionThatWasConfirmedTooLongAgoIsNotCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := cache.New(cache.LoopOptions{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.SetMaxStaleness(time.Minute)
		c.Add(pods)
		check := func(when string, want cache.Level) {
			t.Helper()
			if level := c.Level(); level != want {
				t.Errorf("%s the level is %v, want %v", when, level, want)
			}
		}
		c.Apply(at(list("", "5")...))
		<-time.After(59 * time.Second)
		check("before the bound", cache.OwnWritesVisible)
		c.Apply(at(bookmark("5")))
		<-time.After(59 * time.Second)
		check("after a bookmark of the same version", cache.OwnWritesVisible)
		c.Apply(at(applied("a/x", "u@6"))) // It may have overtaken earlier events.
		<-time.After(time.Second)
		check("at the bound", cache.Listed)
		c.Apply(at(bookmark("6")))
		check("when it is confirmed anew", cache.OwnWritesVisible)
	})
}

// A list is as old as the request for it.
func TestAListIsConfirmedWhenItWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := cache.New(cache.LoopOptions{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.SetMaxStaleness(time.Minute)
		c.Add(pods)
		events := at(list("", "5")...)
		<-time.After(50 * time.Second)
		c.Apply(events)
		if level := c.Level(); level != cache.OwnWritesVisible {
			t.Errorf("50 s after the request the level is %v", level)
		}
		<-time.After(10 * time.Second)
		if level := c.Level(); level != cache.Listed {
			t.Errorf("a minute after the request the level is %v", level)
		}
	})
}

func TestWhoFollowsTheLevelsSeesOneFallWithoutAnyEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := cache.New(cache.LoopOptions{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.SetMaxStaleness(time.Minute)
		c.Add(pods)
		c.Apply(at(list("", "5")...))
		started := time.Now()
		var fell time.Duration
		levels := c.Levels().Observe(t.Context())
		for item := range levels {
			values, _ := streams.Values[cache.Level](item)
			if len(values) > 0 && values[len(values)-1] == cache.Listed {
				fell = time.Since(started)
				break
			}
		}
		if fell != time.Minute {
			t.Errorf("the level fell after %v", fell)
		}
	})
}

func TestWhatRepeatsWhatIsHeldDoesNotEndTheCalm(t *testing.T) {
	c, _ := newCache(t)
	c.Apply(list("", "5", object("a/x", "u@1")))
	c.Settle(0)
	for _, repeated := range []struct {
		what   string
		events []streams.Event
	}{
		{"an event again", []streams.Event{applied("a/x", "u@1")}},
		{"a list of what is held", list("", "6", object("a/x", "u@1"))},
		{"a bookmark", []streams.Event{bookmark("7")}},
		{"a connection that was lost", []streams.Event{event(streams.Disconnected, ""), event(streams.Connected, "7")}},
	} {
		c.Apply(repeated.events)
		if level := c.Level(); level != cache.Settled {
			t.Errorf("after %s the level is %v", repeated.what, level)
		}
	}
	c.Apply([]streams.Event{applied("a/x", "u@8")})
	if level := c.Level(); level != cache.OwnWritesVisible {
		t.Errorf("after a change the level is %v", level)
	}
}

// pipelineWork is the pipeline of a test.
type pipelineWork struct{ busy, unfinished bool }

func (w *pipelineWork) Busy() bool                   { return w.busy }
func (w *pipelineWork) Unfinished() bool             { return w.unfinished }
func (w *pipelineWork) OnActivity()                  {}
func (w *pipelineWork) Pending(cache.Level) []string { return []string{"the queue"} }

func TestWhatThePipelineHoldsKeepsTheLevelDownAtOnce(t *testing.T) {
	c, _ := newCache(t)
	work := &pipelineWork{}
	c.Follow(work)
	c.Apply(list("", "5"))
	c.Settle(0)
	for _, test := range []struct {
		work pipelineWork
		want cache.Level
	}{
		{pipelineWork{}, cache.Converged}, {pipelineWork{busy: true}, cache.OwnWritesVisible},
		{pipelineWork{unfinished: true}, cache.Settled}, {pipelineWork{}, cache.Converged},
	} {
		*work = test.work
		if level := c.Level(); level != test.want {
			t.Errorf("with %+v the level is %v, want %v", test.work, level, test.want)
		}
	}
	same(t, "pending", c.Pending(cache.Settled), []string{"the queue"})
}

func TestAKindThatIsRefusedDoesNotCountBeforeItsFirstList(t *testing.T) {
	c, store := newCache(t)
	jobs := c.Add(streams.Key{}.GroupKind)
	c.Apply(list("", "5"))
	jobs.SetRefused(true)
	if level := c.Level(); level != cache.OwnWritesVisible {
		t.Errorf("beside a kind that is refused the level is %v", level)
	}
	same(t, "not counted", c.NotCounted(), []string{jobs.Kind().String()})
	store.SetRefused(true)
	if level := c.Level(); level != cache.OwnWritesVisible {
		t.Errorf("a kind that was listed does not count: the level is %v", level)
	}
}

// Objects of metrics.k8s.io have no versions.
func TestObjectsWithoutVersionsAreUpdatedByEventsAndLists(t *testing.T) {
	c, store := newCache(t)
	usage := func(app string) *metav1.PartialObjectMetadata { return object("a/x", "@", app) }
	c.Apply(list("", "", usage("1")))
	c.Apply([]streams.Event{of(streams.Applied, usage("2"))})
	same(t, "after an event", held(store.ByIndex("app", "2")), []string{"a/x @"})
	changes := c.Apply(list("", "", usage("3")))
	same(t, "after a list", held(store.ByIndex("app", "3")), []string{"a/x @"})
	same(t, "changes", formatted(changes), []string{"Updated a/x @ > @ by Listed@"})
	if changes := c.Apply(list("", "", usage("3"))); len(changes) != 0 {
		t.Errorf("the same again is %v", formatted(changes))
	}
}

func TestAListThatIsAResetReplacesWhatSeemsNewer(t *testing.T) {
	for _, namespace := range []string{"", "a"} {
		t.Run("namespace "+namespace, func(t *testing.T) {
			c, store := newCache(t)
			c.Apply(within(namespace, list("", "50", object("a/kept", "1@1"), object("a/changed", "2@40"), object("a/gone", "3@45"))...))
			c.Apply([]streams.Event{applied("a/deleted", "4@46"), deleted("a/deleted", "4@47")})
			wrote(store, "a/own", "5@60")
			reset := within(namespace, list("", "20", object("a/kept", "1@1"), object("a/changed", "2@2"), object("a/deleted", "4@4"))...)
			reset[0].Reset, reset[0].Received = true, time.Now().Add(time.Second) // The list was asked for after the write was answered.
			c.Apply(reset)
			same(t, "objects", held(store.List("")), []string{"a/changed 2@2", "a/deleted 4@4", "a/kept 1@1"})
			if level := c.Level(); level != cache.OwnWritesVisible || store.Version() != "20" {
				t.Errorf("the level is %v at version %s", level, store.Version())
			}
			c.Apply([]streams.Event{applied("a/changed", "2@21")})
			same(t, "afterwards", held(store.List("")), []string{"a/changed 2@21", "a/deleted 4@4", "a/kept 1@1"})
		})
	}
}

// A source gives up a list when its request fails. The versions went back before the next list, too.
func TestAListThatFollowsAResetThatWasGivenUpIsAReset(t *testing.T) {
	for _, namespace := range []string{"", "a"} {
		t.Run("namespace "+namespace, func(t *testing.T) {
			c, store := newCache(t)
			c.Apply(within(namespace, list("", "50", object("a/kept", "1@1"), object("a/gone", "3@45"))...))
			reset := within(namespace, list("", "20", object("a/kept", "1@1"))...)
			reset[0].Reset = true
			c.Apply(reset[:len(reset)-1])
			c.Apply(within(namespace, list("", "21", object("a/kept", "1@1"))...))
			same(t, "objects", held(store.List("")), []string{"a/kept 1@1"})
			c.Apply([]streams.Event{applied("a/later", "4@30")})
			c.Apply(within(namespace, list("", "22", object("a/kept", "1@1"))...)) // An old list.
			same(t, "afterwards", held(store.List("")), []string{"a/kept 1@1", "a/later 4@30"})
		})
	}
}

// The first lists of many namespaces together cost about as much as one list of all of them.
func TestTheFirstListsOfManyNamespacesAreNotQuadratic(t *testing.T) {
	const objects = 8_000
	took := func(namespaces int) time.Duration {
		c, store := newCache(t)
		var names []string
		for i := range namespaces {
			names = append(names, fmt.Sprint("n", i))
		}
		store.SetNamespaces(names...)
		lists := make([][]streams.Event, namespaces)
		for n := range namespaces {
			var listed []*metav1.PartialObjectMetadata
			for i := range objects / namespaces {
				listed = append(listed, object(fmt.Sprintf("n%d/x%d", n, i), fmt.Sprintf("u%d@1", i)))
			}
			lists[n] = listOf(names[n], "5", listed...)
		}
		started := cpuTime()
		for _, list := range lists {
			c.Apply(list)
		}
		return cpuTime() - started
	}
	few, many := took(4), took(400)
	for range 4 { // It takes the best of five, since the machine does other things too.
		few, many = min(few, took(4)), min(many, took(400))
	}
	t.Logf("%d objects in 4 namespaces take %v of CPU, in 400 %v", objects, few, many)
	if many > 4*few {
		t.Errorf("%d objects in 4 namespaces take %v of CPU, in 400 %v", objects, few, many)
	}
}

func TestTheCacheShrinksWhenObjectsHaveGone(t *testing.T) {
	c, store := newCache(t)
	c.Apply(list("", "1"))
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	for i := range 50_000 {
		c.Apply([]streams.Event{applied(fmt.Sprint("a/x", i), fmt.Sprintf("u%d@%d", i, i+2))})
	}
	for i := range 50_000 {
		c.Apply([]streams.Event{deleted(fmt.Sprint("a/x", i), fmt.Sprintf("u%d@%d", i, i+100_000))})
	}
	after := heap()
	if store.Len() != 0 || after > before+4<<20 {
		t.Errorf("with %d objects left the heap is %d kB, and was %d", store.Len(), after>>10, before>>10)
	}
	runtime.KeepAlive(c)
}

// After the restore, the version was used again for another state.
func TestAListThatIsAResetTellsOfAStateWithAVersionThatWasUsedBefore(t *testing.T) {
	for _, namespace := range []string{"", "a"} {
		c, store := newCache(t)
		c.Apply(within(namespace, list("", "50", object("a/x", "u@40", "before"))...))
		reset := within(namespace, list("", "45", object("a/x", "u@40", "after"))...)
		reset[0].Reset = true
		same(t, "changes", formatted(c.Apply(reset)), []string{"Updated a/x u@40 > u@40 by Listed@40"})
		same(t, "held", held(store.ByIndex("app", "after")), []string{"a/x u@40"})
	}
}

// Readers saw the own write, and now see the state from before it again.
func TestAnOwnWriteThatARestoreTookBackIsAChange(t *testing.T) {
	c, store := newCache(t)
	c.Apply(list("", "5", object("a/x", "u@4")))
	wrote(store, "a/x", "u@9")
	reset := list("", "5", object("a/x", "u@4"))
	reset[0].Reset, reset[0].Received = true, time.Now().Add(time.Second)
	same(t, "changes", formatted(c.Apply(reset)), []string{"Updated a/x u@9 > u@4 by ListEnd@5"})
	if got(store, "a/x") != "u@4" {
		t.Errorf("read is %s", got(store, "a/x"))
	}
}
