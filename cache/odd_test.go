package cache_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
)

func TestEachEventIsDecidedCountedAndTold(t *testing.T) {
	folded := deleted("a/x", "u@3")
	folded.Coalesced = applied("a/x", "u@2").Causes()
	for name, test := range map[string]struct {
		before, events []streams.Event
		changes        []string
		then           string // what Get returns afterwards
		counts         map[string]int64
	}{
		"creation": {
			events:  []streams.Event{applied("a/x", "u@1")},
			changes: []string{"Added a/x - > u@1 by Applied@1"}, then: "u@1",
		},
		"update": {
			before:  []streams.Event{applied("a/x", "u@1")},
			events:  []streams.Event{applied("a/x", "u@2")},
			changes: []string{"Updated a/x u@1 > u@2 by Applied@2"}, then: "u@2",
		},
		"deletion": {
			before:  []streams.Event{applied("a/x", "u@1")},
			events:  []streams.Event{deleted("a/x", "u@2")},
			changes: []string{"Removed a/x u@1 > - by Deleted@2"}, then: "-",
		},
		"repetition of what is held": {
			before: []streams.Event{applied("a/x", "u@1")},
			events: []streams.Event{applied("a/x", "u@1")},
			then:   "u@1",
		},
		"deletion of an unknown key": {
			events:  []streams.Event{deleted("a/x", "u@3")},
			changes: []string{"Removed a/x u@3 > - by Deleted@3"}, then: "-",
			counts: map[string]int64{"delete_unknown": 1},
		},
		"deletion into which the creation was folded": {
			events:  []streams.Event{folded},
			changes: []string{"Removed a/x u@3 > - by Applied@2 Deleted@3"}, then: "-",
		},
		"creation of a known key with another uid": {
			before:  []streams.Event{applied("a/x", "u@1")},
			events:  []streams.Event{applied("a/x", "v@3")},
			changes: []string{"Removed a/x u@1 > - by Applied@3", "Added a/x - > v@3 by Applied@3"}, then: "v@3",
			counts: map[string]int64{"recreated": 1},
		},
		"late deletion of what was recreated": {
			before:  []streams.Event{applied("a/x", "u@1"), applied("a/x", "v@3")},
			events:  []streams.Event{deleted("a/x", "u@2")},
			changes: []string{"Unchanged a/x v@3 > v@3 by Deleted@2"}, then: "v@3",
			counts: map[string]int64{"recreated": 1, "older": 1},
		},
		"late creation of what was recreated": {
			before:  []streams.Event{applied("a/x", "v@3")},
			events:  []streams.Event{applied("a/x", "u@1")},
			changes: []string{"Unchanged a/x v@3 > v@3 by Applied@1"}, then: "v@3",
			counts: map[string]int64{"older": 1},
		},
		"apply older than what is held, with fewer digits": {
			before:  []streams.Event{applied("a/x", "u@10")},
			events:  []streams.Event{applied("a/x", "u@9")},
			changes: []string{"Unchanged a/x u@10 > u@10 by Applied@9"}, then: "u@10",
			counts: map[string]int64{"older": 1},
		},
		"deletion older than what is held, of the same uid": {
			before:  []streams.Event{applied("a/x", "u@3")},
			events:  []streams.Event{deleted("a/x", "u@2")},
			changes: []string{"Unchanged a/x u@3 > u@3 by Deleted@2"}, then: "u@3",
			counts: map[string]int64{"older": 1},
		},
		"deletion that bears the version of the last state": {
			before:  []streams.Event{applied("a/x", "u@3")},
			events:  []streams.Event{deleted("a/x", "u@3"), applied("a/x", "u@3")},
			changes: []string{"Removed a/x u@3 > - by Deleted@3", "Unchanged a/x - > - by Applied@3"}, then: "-",
			counts: map[string]int64{"apply_after_delete": 1},
		},
		"deletion of a uid whose creation was missed": {
			before:  []streams.Event{applied("a/x", "u@1")},
			events:  []streams.Event{deleted("a/x", "v@5")},
			changes: []string{"Removed a/x u@1 > - by Deleted@5"}, then: "-",
		},
		"apply older than a remembered deletion": {
			before:  []streams.Event{applied("a/x", "u@1"), deleted("a/x", "u@3")},
			events:  []streams.Event{applied("a/x", "u@2")},
			changes: []string{"Unchanged a/x - > - by Applied@2"}, then: "-",
			counts: map[string]int64{"apply_after_delete": 1},
		},
		"apply older than a remembered deletion, of a uid before": {
			before:  []streams.Event{applied("a/x", "v@4"), deleted("a/x", "v@5")},
			events:  []streams.Event{applied("a/x", "u@2")},
			changes: []string{"Unchanged a/x - > - by Applied@2"}, then: "-",
			counts: map[string]int64{"apply_after_delete": 1},
		},
		"late deletion before a remembered one, which is remembered on": {
			before:  []streams.Event{applied("a/x", "v@4"), deleted("a/x", "v@9")},
			events:  []streams.Event{deleted("a/x", "u@2"), applied("a/x", "v@5")},
			changes: []string{"Removed a/x u@2 > - by Deleted@2", "Unchanged a/x - > - by Applied@5"}, then: "-",
			counts: map[string]int64{"delete_unknown": 1, "apply_after_delete": 1},
		},
		"recreation after a deletion": {
			before:  []streams.Event{applied("a/x", "u@1"), deleted("a/x", "u@2")},
			events:  []streams.Event{applied("a/x", "v@3"), applied("a/x", "v@4")},
			changes: []string{"Added a/x - > v@3 by Applied@3", "Updated a/x v@3 > v@4 by Applied@4"}, then: "v@4",
		},
		// A watch with a selector reports an object that leaves the selector as deleted.
		"return of an object that had left the selector": {
			before:  []streams.Event{applied("a/x", "u@1"), deleted("a/x", "u@2")},
			events:  []streams.Event{applied("a/x", "u@3")},
			changes: []string{"Added a/x - > u@3 by Applied@3"}, then: "u@3",
		},
		"late apply after a recreation": {
			before:  []streams.Event{applied("a/x", "u@1"), deleted("a/x", "u@3"), applied("a/x", "v@4")},
			events:  []streams.Event{applied("a/x", "u@2")},
			changes: []string{"Unchanged a/x v@4 > v@4 by Applied@2"}, then: "v@4",
			counts: map[string]int64{"older": 1},
		},
		"versions that cannot be compared": {
			before: []streams.Event{applied("a/x", "u@one")},
			events: []streams.Event{applied("a/x", "u@two"), deleted("a/x", "u@three"), applied("a/x", "u@two")},
			changes: []string{"Updated a/x u@one > u@two by Applied@two", "Removed a/x u@two > - by Deleted@three",
				"Unchanged a/x - > - by Applied@two"}, then: "-",
			counts: map[string]int64{"apply_after_delete": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, store := newCache(t)
			c.Apply(test.before)
			changes := c.Apply(test.events)
			same(t, "changes", formatted(changes), test.changes)
			if now := got(store, "a/x"); now != test.then {
				t.Errorf("the store has %s, want %s", now, test.then)
			}
			if counts := anomalies(store); !maps.Equal(counts, test.counts) {
				t.Errorf("counted %v, want %v", counts, test.counts)
			}
		})
	}
}

func TestAnOddEventIsLoggedWithItsObject(t *testing.T) {
	var log bytes.Buffer
	made, err := cache.New(cache.LoopOptions{}, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	made.Add(pods)
	made.Apply([]streams.Event{deleted("a/x", "u@3")})
	for _, want := range []string{"anomaly=delete_unknown", "kind=Pod", "namespace=a", "name=x", "resourceVersion=3", "source=test"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s: %s", want, log.String())
		}
	}
}

func TestAChangeKeepsTheCausesAndTheFirstReception(t *testing.T) {
	c, _ := newCache(t)
	event := applied("a/x", "u@3")
	event.Coalesced = applied("a/x", "u@2").Causes()
	event.Received = received.Add(time.Second)
	changes := c.Apply([]streams.Event{event})
	if len(changes) != 1 {
		t.Fatalf("%d changes, want 1", len(changes))
	}
	if !reflect.DeepEqual(changes[0].Causes, event.Causes()) || len(changes[0].Causes) != 2 {
		t.Errorf("the causes are %v, want those of the event", changes[0].Causes)
	}
	if changes[0].Received != event.Received {
		t.Errorf("received at %v, want %v", changes[0].Received, event.Received)
	}
}

// The number of remembered deletions is bounded. Otherwise a cluster that makes new names all the
// time would fill the memory.
func TestOnlyTheLatestDeletionsAreRemembered(t *testing.T) {
	c, store := newCache(t)
	c.Apply([]streams.Event{deleted("a/first", "u@9000")})
	var events []streams.Event
	for i := range 4096 {
		events = append(events, deleted(fmt.Sprintf("a/%d", i), fmt.Sprintf("u%d@9000", i)))
	}
	c.Apply(events)
	c.Apply([]streams.Event{applied("a/first", "u@1"), applied("a/0", "u0@1")})
	same(t, "objects", held(store.List("")), []string{"a/first u@1"})
}

// An operator that runs for days sees new objects come and go forever.
func TestDeletionsAreForgottenAfterAQuarterOfAnHour(t *testing.T) {
	for name, mark := range map[string]func(version string) []streams.Event{
		"bookmark": func(version string) []streams.Event { return []streams.Event{bookmark(version)} },
		"list":     func(version string) []streams.Event { return list("", version) },
	} {
		t.Run(name, func(t *testing.T) {
			c, store := newCache(t)
			at, version := received, 1
			apply := func(events ...streams.Event) {
				for i := range events {
					events[i].Received = at
				}
				c.Apply(events)
			}
			apply(list("", "1")...)
			for minute := range 60 {
				for range 10 {
					version += 2
					at = at.Add(6 * time.Second)
					object, gone := fmt.Sprintf("u%d@%d", version, version), fmt.Sprintf("u%d@%d", version, version+1)
					apply(applied(fmt.Sprint("a/", version), object), deleted(fmt.Sprint("a/", version), gone))
				}
				apply(mark(fmt.Sprint(version + 1))...)
				if got, want := store.Remembered(), 10*min(minute+1, 15); got != want {
					t.Fatalf("after %d minutes with 10 deletions each, %d are remembered, want %d", minute+1, got, want)
				}
			}
			late := version - 280 // 14 minutes ago
			apply(applied(fmt.Sprint("a/", late), fmt.Sprintf("u%d@%d", late, late)))
			same(t, "objects after a late event", held(store.List("")), nil)
		})
	}
}

func TestAnomaliesHaveNamesForMetrics(t *testing.T) {
	_, store := newCache(t)
	var names []string
	store.Anomalies(func(anomaly cache.Anomaly, _ int64) { names = append(names, anomaly.String()) })
	slices.Sort(names)
	same(t, "names", names, []string{"apply_after_delete", "delete_unknown", "old_list", "older", "recreated"})
}
