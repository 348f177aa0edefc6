package cache_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var jobs = schema.GroupKind{Group: "batch", Kind: "Job"}

// ofKind returns events with another kind, received now.
func ofKind(kind schema.GroupKind, events ...streams.Event) []streams.Event {
	for i := range events {
		events[i].Key.GroupKind, events[i].Received = kind, time.Now()
	}
	return events
}

func TestKindsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, podStore := newCache(t)
		c.Apply(list("", "5", object("a/x", "u@4")))
		first := c.Add(jobs)
		if c.Add(jobs) != first || c.Store(jobs) != first {
			t.Error("a kind that is there is added again")
		}
		c.Apply(ofKind(jobs, list("", "6", object("a/j", "u@6"))...))
		wrote(first, "a/own", "u@7")
		late := ofKind(jobs, applied("a/late", "u@8"))
		<-time.After(time.Second)

		c.Remove(jobs)
		if c.Store(jobs) != nil || len(c.Stores()) != 1 || c.Stores()[0] != podStore {
			t.Errorf("after the removal there are %v", c.Stores())
		}
		if changes := c.Apply(ofKind(jobs, applied("a/k", "u@9"))); len(changes) > 0 {
			t.Errorf("an event of a kind that is removed makes %v", formatted(changes))
		}
		same(t, "what is left in the store that was removed", held(first.List("")), []string{"a/j u@6", "a/own u@7"})
		same(t, "what is left of others", held(podStore.List("")), []string{"a/x u@4"})
		c.Remove(jobs) // The kind is not there any more.

		<-time.After(time.Second)
		second := c.Add(jobs)
		if second == first || second.Len() > 0 {
			t.Errorf("the kind begins anew with %v", held(second.List("")))
		}
		if changes := c.Apply(late); len(changes) > 0 || second.Len() > 0 {
			t.Errorf("what was received before the removal makes %v", formatted(changes))
		}
		c.Apply(ofKind(jobs, list("", "10", object("a/j", "u@10"))...))
		same(t, "the new store", held(second.List("")), []string{"a/j u@10"})
		same(t, "the old store", held(first.List("")), []string{"a/j u@6", "a/own u@7"})
	})
}

func TestTheLevelIsThatOfTheKindsThatAreThere(t *testing.T) {
	c, store := newCache(t)
	check := func(when string, want cache.Level, pending ...string) {
		t.Helper()
		if level := c.Level(); level != want {
			t.Errorf("%s the level is %v, want %v", when, level, want)
		}
		same(t, "pending "+when, c.Pending(cache.Settled), pending)
	}
	c.Apply(list("", "5"))
	c.Settle(0)
	check("with one kind", cache.Settled)
	c.Add(jobs)
	check("with another that is not listed", cache.Starting, "Job.batch")
	c.Remove(jobs)
	check("when it is removed", cache.Settled)
	wrote(store, "a/x", "u@7")
	c.Add(jobs)
	c.Apply(ofKind(jobs, list("9", "8")...))
	check("with a kind that is listed", cache.Listed, "Pod", "Job.batch")
	c.Remove(pods)
	check("without the other", cache.Listed, "Job.batch")
	c.Remove(jobs)
	check("without kinds", cache.Starting)
}

func TestWaitForSomeKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newCache(t)
		c.Apply(list("", "5"))
		c.Add(jobs)
		if err := c.Wait(t.Context(), cache.Current, pods); err != nil {
			t.Errorf("waiting for a kind that is there fails: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Wait(ctx, cache.Current, pods, jobs)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(fmt.Sprint(err), "whose level is Starting") {
			t.Errorf("the error is %v", err)
		}
		for name, end := range map[string]func(){
			"it is current": func() { c.Apply(ofKind(jobs, list("", "6")...)) },
			"it is removed": func() { c.Remove(jobs) },
			"the other is removed, and it is as well": func() { c.Remove(pods); c.Remove(jobs) },
		} {
			c.Add(pods)
			c.Remove(jobs)
			c.Add(jobs)
			group := lifecycle.New(t.Context())
			returned := false
			group.Go("wait", func(ctx context.Context) error {
				err := c.Wait(ctx, cache.Current, jobs)
				returned = true
				return err
			})
			synctest.Wait()
			if returned {
				t.Error("it returned before")
			}
			end()
			if err := group.Wait(); err != nil {
				t.Errorf("when %s: %v", name, err)
			}
		}
	})
}

func TestLevelsTellOfKindsThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newCache(t)
		c.Apply(list("", "5"))
		group := lifecycle.New(t.Context())
		var got []cache.Level
		group.Go("levels", func(ctx context.Context) error {
			return streams.ForEach(ctx, c.Levels(), func(batch []cache.Level) { got = append(got, batch...) }, func(err error) { t.Error(err) })
		})
		synctest.Wait()
		c.Add(jobs)
		synctest.Wait()
		c.Remove(jobs)
		synctest.Wait()
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		if want := []cache.Level{cache.OwnWritesVisible, cache.Starting, cache.OwnWritesVisible}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// collected reports whether an object has left the memory.
func collected(object weak.Pointer[metav1.PartialObjectMetadata]) bool {
	for range 5 {
		runtime.GC()
	}
	return object.Value() == nil
}

// fill adds jobs with two objects: one that is listed, and one that is written.
func fill(c *cache.Cache) (listed, written weak.Pointer[metav1.PartialObjectMetadata]) {
	x, y := object("a/x", "u@4"), object("a/y", "u@9")
	c.Add(jobs, cache.ByOwner).RecordWrite(y, time.Time{}, time.Time{})
	c.Apply(ofKind(jobs, list("", "5", x)...))
	return weak.Make(x), weak.Make(y)
}

func TestTheObjectsOfAKindThatIsRemovedLeaveTheMemory(t *testing.T) {
	for _, detect := range []bool{false, true} {
		c, _ := newCache(t)
		if detect {
			c.DetectMutations()
		}
		listed, written := fill(c)
		if collected(listed) || collected(written) {
			t.Fatal("an object of the cache has left the memory")
		}
		c.Remove(jobs)
		if !collected(listed) || !collected(written) {
			t.Errorf("an object of a kind that is removed is still in the memory (mutations detected: %v)", detect)
		}
		runtime.KeepAlive(c)
	}
}

func TestAMutationBeforeTheRemovalIsTold(t *testing.T) {
	c, _ := newCache(t)
	c.DetectMutations()
	changed := object("a/x", "u@4", "red")
	c.Apply(list("", "5", changed))
	changed.Labels["app"] = "blue"
	c.Remove(pods)
	changed.Labels["app"] = "green"
	if found := c.Mutations(); len(found) != 1 || found[0].After.GetLabels()["app"] != "blue" {
		t.Errorf("found %v", found)
	}
}

// One reader ends while another one, which has read the object before, has not changed it yet.
func TestAChangeByAReaderThatOutlastsAnotherOneIsFound(t *testing.T) {
	c, store := newCache(t)
	c.DetectMutations()
	c.Apply(list("", "5", object("a/x", "u@4", "red")))
	slow, quick := c.BeginReads(), c.BeginReads()
	read, _ := store.Get(types.NamespacedName{Namespace: "a", Name: "x"})
	quick()
	if found := c.Mutations(); len(found) != 0 {
		t.Errorf("found %v before the change", found)
	}
	read.GetLabels()["app"] = "blue"
	slow()
	slow()
	if found := c.Mutations(); len(found) != 1 || found[0].After.GetLabels()["app"] != "blue" {
		t.Errorf("found %v", found)
	}
}

// Run this test with -race. The kind that stays is right, while others come and go.
func TestKindsMayComeAndGoBesideTheWriterAndReaders(t *testing.T) {
	c, store := newCache(t)
	c.OnEcho(func(schema.GroupKind, time.Duration) {})
	c.Apply(list("", "5"))
	changing := lifecycle.New(t.Context())
	for i := range 2 {
		kind := schema.GroupKind{Kind: "Kind" + strconv.Itoa(i)}
		changing.Go("change", func(ctx context.Context) error {
			for ctx.Err() == nil {
				added := c.Add(kind)
				wrote(added, "a/x", "u@7")
				c.Remove(kind)
				added.List("")
			}
			return nil
		})
		changing.Go("read", func(ctx context.Context) error {
			for ctx.Err() == nil {
				_ = c.Level()
				c.Pending(cache.Settled)
				if found := c.Store(kind); found != nil {
					found.List("")
				}
				if got := c.Stores(); got[0] != store {
					return fmt.Errorf("the stores are %v", got)
				}
			}
			return nil
		})
	}
	for i := range 2000 {
		version := 6 + i
		events := []streams.Event{applied("a/x", "u@"+strconv.Itoa(version))}
		for k := range 2 {
			kind := schema.GroupKind{Kind: "Kind" + strconv.Itoa(k)}
			events = append(events, ofKind(kind, list("", strconv.Itoa(version), object("a/x", "u@"+strconv.Itoa(version)))...)...)
		}
		c.Apply(events)
		if got(store, "a/x") != "u@"+strconv.Itoa(version) {
			t.Fatalf("it holds %s at version %d", got(store, "a/x"), version)
		}
	}
	changing.Stop()
	if err := changing.Wait(); err != nil {
		t.Error(err)
	}
}
