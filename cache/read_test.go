package cache_test

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestGetFindsWhatWasAppliedUntilItIsDeleted(t *testing.T) {
	c, store := newCache(t)
	if now := got(store, "a/x"); now != "-" {
		t.Errorf("an empty store has %s", now)
	}
	c.Apply([]streams.Event{applied("a/x", "u@1"), applied("a/x", "u@2")})
	if now := got(store, "a/x"); now != "u@2" || store.Len() != 1 {
		t.Errorf("the store has %s and %d objects, want u@2 and 1", now, store.Len())
	}
	c.Apply([]streams.Event{deleted("a/x", "u@3")})
	if now := got(store, "a/x"); now != "-" || store.Len() != 0 {
		t.Errorf("the store still has %s and %d objects", now, store.Len())
	}
}

func TestListOfANamespaceHasNoObjectsOfOneWithALongerName(t *testing.T) {
	c, store := newCache(t)
	c.Apply([]streams.Event{applied("ab/x", "1@1"), applied("a/x", "2@2"), applied("a/b", "3@3"), applied("a-b/x", "4@4"), applied("/a", "5@5")})
	same(t, "objects", held(store.List("a")), []string{"a/b 3@3", "a/x 2@2"})
	if none := store.List("b"); len(none) != 0 {
		t.Errorf("a namespace without objects has %v", held(none))
	}
}

// In the order of the bytes of "namespace/name", a-b would come before a.
func TestListOfAllIsByNamespaceThenByName(t *testing.T) {
	c, store := newCache(t)
	c.Apply([]streams.Event{applied("a-b/x", "1@1"), applied("a/y", "2@2"), applied("a/x", "3@3"), applied("a.b/x", "4@4"), applied("a/x-1", "5@5")})
	want := []string{"a/x 3@3", "a/x-1 5@5", "a/y 2@2", "a-b/x 1@1", "a.b/x 4@4"}
	same(t, "objects", held(store.List("")), want)
}

func TestAnIndexFollowsUpdatesAndDeletions(t *testing.T) {
	c, store := newCache(t)
	values := func() map[string][]string {
		found := map[string][]string{}
		for _, value := range []string{"red", "blue", "re"} {
			if objects := store.ByIndex("app", value); objects != nil {
				found[value] = held(objects)
			}
		}
		return found
	}
	steps := []struct {
		event streams.Event
		want  map[string][]string
	}{
		{applied("b/x", "1@1", "red"), map[string][]string{"red": {"b/x 1@1"}}},
		{applied("a/x", "2@2", "red", "blue"), map[string][]string{"red": {"a/x 2@2", "b/x 1@1"}, "blue": {"a/x 2@2"}}},
		{applied("a/x", "2@3", "red"), map[string][]string{"red": {"a/x 2@3", "b/x 1@1"}}},
		{applied("b/x", "1@4", "blue", "blue"), map[string][]string{"red": {"a/x 2@3"}, "blue": {"b/x 1@4"}}},
		{applied("b/x", "3@5"), map[string][]string{"red": {"a/x 2@3"}}},
		{deleted("a/x", "2@6"), map[string][]string{}},
	}
	for i, step := range steps {
		c.Apply([]streams.Event{step.event})
		if now := values(); !reflect.DeepEqual(now, step.want) {
			t.Errorf("after step %d the index has %v, want %v", i, now, step.want)
		}
	}
}

func TestByOwnerFindsTheChildrenOfEachOwner(t *testing.T) {
	c, store := newCache(t)
	child := object("a/x", "1@1")
	child.OwnerReferences = []metav1.OwnerReference{{UID: "mother"}, {UID: "father"}}
	c.Apply([]streams.Event{of(streams.Applied, child), applied("a/y", "2@2")})
	for _, owner := range []string{"mother", "father"} {
		same(t, owner, held(store.ByIndex(cache.OwnerIndex, owner)), []string{"a/x 1@1"})
	}
}

func TestALabelIndexTellsAnEmptyValueFromNoLabel(t *testing.T) {
	made, err := cache.New(cache.LoopOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := made.Add(pods, cache.LabelIndexer("app"))
	empty := object("a/empty", "1@1")
	empty.Labels = map[string]string{"app": ""}
	made.Apply([]streams.Event{of(streams.Applied, empty), applied("a/none", "2@2"), applied("a/red", "3@3", "red")})
	same(t, "objects", held(store.ByIndex("app", "")), []string{"a/empty 1@1"})
}

func TestAFieldIndexHoldsWhatTheFieldSays(t *testing.T) {
	made, err := cache.New(cache.LoopOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := made.Add(pods, cache.FieldIndexer("generation", func(of *metav1.PartialObjectMetadata) string {
		if of.Generation == 0 {
			return ""
		}
		return strconv.FormatInt(of.Generation, 10)
	}))
	first := object("a/x", "1@1")
	first.Generation = 1
	second := object("a/x", "1@3")
	second.Generation = 2
	made.Apply([]streams.Event{of(streams.Applied, first), applied("a/none", "2@2")})
	same(t, "of the first generation", held(store.ByIndex("generation", "1")), []string{"a/x 1@1"})
	made.Apply([]streams.Event{of(streams.Applied, second)})
	same(t, "of the first generation", held(store.ByIndex("generation", "1")), nil)
	same(t, "of the second", held(store.ByIndex("generation", "2")), []string{"a/x 1@3"})
	same(t, "of none", held(store.ByIndex("generation", "")), nil)
}

func TestAnIndexThatDoesNotExistIsEmpty(t *testing.T) {
	c, store := newCache(t)
	c.Apply([]streams.Event{applied("a/x", "1@1", "red")})
	store.RecordWrite(object("a/y", "2@2", "red"), received, time.Time{})
	if found := store.ByIndex("colour", "red"); found != nil {
		t.Errorf("found %v", held(found))
	}
}

func TestAListThatAReaderHoldsNeverChanges(t *testing.T) {
	c, store := newCache(t)
	var events []streams.Event
	for _, name := range []string{"a/1", "a/2", "a/3"} {
		events = append(events, applied(name, "u"+name+"@1", "red"))
	}
	c.Apply(events)
	all, red := store.List(""), store.ByIndex("app", "red")
	before := append(slices.Clone(held(all)), held(red)...)

	c.Apply([]streams.Event{applied("a/1", "ua/1@2"), deleted("a/2", "ua/2@3"), applied("a/4", "n@4", "red")})
	store.RecordWrite(object("a/3", "ua/3@5"), received, time.Time{})
	c.Apply(list("", "6"))

	same(t, "the older list", append(held(all), held(red)...), before)
	if now := store.List(""); len(now) != 0 {
		t.Errorf("the store has %v after an empty list", held(now))
	}
}

// The cache calls the indexer in the middle of a batch, and the indexer reads the store.
func TestWhatABatchCreatesAndDeletesIsVisibleAsAWhole(t *testing.T) {
	made, err := cache.New(cache.LoopOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var store *cache.Store
	var seen []string
	store = made.Add(pods, cache.Indexer{Name: "looks", Values: func(_ streams.Object, values []string) []string {
		seen = append(seen, fmt.Sprint(held(store.List(""))))
		return values
	}})
	made.Apply([]streams.Event{applied("a/x", "u@1"), applied("a/y", "v@2")})
	made.Apply([]streams.Event{deleted("a/x", "u@3"), applied("a/z", "w@4")})
	before, between := "[]", "[a/x u@1 a/y v@2]"
	same(t, "what was seen", seen, []string{before, before, between, between})
}

func TestKindsAreKeptApartAndUnknownOnesDropped(t *testing.T) {
	c, store := newCache(t)
	jobs := schema.GroupKind{Group: "batch", Kind: "Job"}
	other := c.Add(jobs)
	if c.Add(pods) != store || c.Store(pods) != store || c.Store(jobs) != other || c.Store(schema.GroupKind{Kind: "Node"}) != nil {
		t.Error("the stores are not those of their kinds")
	}
	if len(c.Stores()) != 2 || c.Stores()[0] != store || c.Stores()[1] != other || other.Kind() != jobs {
		t.Error("the stores are not in the order of adding")
	}
	job, node := applied("a/x", "1@1"), applied("a/x", "2@2")
	job.Key.GroupKind, node.Key.GroupKind = jobs, schema.GroupKind{Kind: "Node"}
	changes := c.Apply([]streams.Event{job, node, applied("a/y", "3@3")})
	same(t, "changes", formatted(changes), []string{"Added a/x - > 1@1 by Applied@1", "Added a/y - > 3@3 by Applied@3"})
	if store.Len() != 1 || other.Len() != 1 {
		t.Errorf("%d pods and %d jobs, want 1 and 1", store.Len(), other.Len())
	}
}
