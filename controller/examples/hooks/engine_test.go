package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

var errHook = errors.New("exit status 1")

// configMaps is a hook that follows all ConfigMaps.
const configMaps = "configVersion: v1\nkubernetes: [{name: maps, kind: cm}]"

func TestAHookGetsASynchronizationAndThenEachEvent(t *testing.T) {
	inWorld(t, map[string]string{"a": configMaps}, func(w *world) {
		w.expect("at the start", "a: maps Synchronization")
		if text := w.lastOf("a"); !strings.HasPrefix(text, `[{"binding":"maps","objects":[{"object":{"apiVersion":"v1","data":{"k":"1"},"kind":"ConfigMap"`) {
			t.Errorf("the context of the Synchronization is %s", text)
		}
		w.must(w.server.Create(configMap("new")))
		w.expect("after a creation", "a: maps Event Added new")
		w.must(w.server.Update(configMap("old", "k", "2")))
		w.expect("after a change", "a: maps Event Modified old")
		w.must(w.server.Delete(configMap("old")))
		w.expect("after a deletion", "a: maps Event Deleted old")
		if text := w.lastOf("a"); !strings.Contains(text, `"data":{"k":"2"}`) {
			t.Errorf("the context of the deletion lacks the last state: %s", text)
		}
	}, configMap("old", "k", "1"))
}

func TestAnEmptySynchronizationHasAnEmptyArrayOfObjects(t *testing.T) {
	inWorld(t, map[string]string{"a": configMaps}, func(w *world) {
		w.expect("at the start", "a: maps Synchronization")
		if got, want := w.lastOf("a"), `[{"binding":"maps","objects":[],"type":"Synchronization"}]`; got != want {
			t.Errorf("the context is %s, want %s", got, want)
		}
	})
}

func TestStartupHooksRunInTheirOrderBeforeEverythingElse(t *testing.T) {
	inWorld(t, map[string]string{
		"a": "configVersion: v1\nonStartup: 20\nkubernetes: [{name: maps, kind: ConfigMap, queue: own}]",
		"b": "configVersion: v1\nonStartup: 3",
		"c": "configVersion: v1\nonStartup: 20",
	}, func(w *world) {
		w.expect("at the start", "b: onStartup", "a: onStartup", "c: onStartup", "a: maps Synchronization")
		if got, want := w.lastOf("b"), `[{"binding":"onStartup"}]`; got != want {
			t.Errorf("the context is %s, want %s", got, want)
		}
	})
}

func TestAScheduleRunsTheHookAtTheTimesOfItsCrontab(t *testing.T) {
	inWorld(t, map[string]string{"a": `
configVersion: v1
schedule:
- crontab: "*/20 * * * *"
- {name: quick, crontab: "30 * * * * *"}
`}, func(w *world) { // Virtual time begins at midnight.
		w.expectAfter(2*time.Minute, "in two minutes", "a: quick Schedule", "a: quick Schedule")
		if got, want := w.lastOf("a"), `[{"binding":"quick","type":"Schedule"}]`; got != want {
			t.Errorf("the context is %s, want %s", got, want)
		}
		w.expectAfter(17*time.Minute, "until 00:19", strings.Split(strings.Repeat("a: quick Schedule\n", 16)+"a: quick Schedule", "\n")...)
		w.expectAfter(65*time.Second, "past 00:20", "a: quick Schedule", "a: schedule Schedule")
	})
}

func TestAHookThatFailsIsRepeatedEveryFiveSecondsAndHoldsItsQueue(t *testing.T) {
	inWorld(t, map[string]string{
		"a": configMaps,
		"b": "configVersion: v1\nkubernetes: [{name: later, kind: ConfigMap}, {name: beside, kind: ConfigMap, queue: own}]",
	}, func(w *world) {
		w.expectInAnyOrder("at the start", "a: maps Synchronization", "b: beside Synchronization", "b: later Synchronization")
		w.hooksDo(func(_ context.Context, hook string) error {
			if hook == "a" {
				return errHook
			}
			return nil
		})
		w.must(w.server.Create(configMap("x")))
		w.expectInAnyOrder("after an event", "a: maps Event Added x", "b: beside Event Added x")
		w.must(w.server.Create(configMap("y")))
		w.expect("an event during the backoff", "b: beside Event Added y")
		w.expectAfter(4*time.Second, "after the backoff", "a: maps Event Added x")
		w.hooksDo(func(context.Context, string) error { return nil })
		w.expectAfter(5*time.Second, "once it succeeds", "a: maps Event Added x", "b: later Event Added x", "a: maps Event Added y", "b: later Event Added y")
	})
}

func TestAFailureThatIsAllowedIsNotRepeated(t *testing.T) {
	inWorld(t, map[string]string{"a": "configVersion: v1\nkubernetes: [{name: maps, kind: ConfigMap, allowFailure: true}]"}, func(w *world) {
		w.expect("at the start", "a: maps Synchronization")
		w.hooksDo(func(context.Context, string) error { return errHook })
		w.must(w.server.Create(configMap("x")))
		w.expectAfter(time.Minute, "after an event", "a: maps Event Added x")
	})
}

func TestContextsAreCombinedWhileAHookRunsAndAnObjectIsShownAsItIsThen(t *testing.T) {
	inWorld(t, map[string]string{"a": configMaps}, func(w *world) {
		w.expect("at the start", "a: maps Synchronization")
		release := make(chan struct{})
		w.hooksDo(func(ctx context.Context, _ string) error {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		w.must(w.server.Create(configMap("x")))
		w.expect("after an event", "a: maps Event Added x")
		w.must(w.server.Create(configMap("y", "k", "1")))
		w.must(w.server.Delete(configMap("x")))
		w.expect("while the hook runs")
		w.must(w.server.Update(configMap("y", "k", "2")))
		w.must(w.server.Create(configMap("short")))
		w.must(w.server.Delete(configMap("short")))
		w.must(w.server.Create(configMap("x")))
		w.expect("while the hook runs")
		close(release)
		w.expect("when the hook has ended", "a: maps Event Added y, maps Event Deleted x, maps Event Added x")
		if text := w.lastOf("a"); !strings.Contains(text, `"data":{"k":"2"}`) {
			t.Errorf("the event has an old state: %s", text)
		}
	})
}

func TestAHookThatHangsStopsNoOtherQueue(t *testing.T) {
	inWorld(t, map[string]string{
		"a": "configVersion: v1\nkubernetes: [{name: maps, kind: ConfigMap, queue: hangs}]",
		"b": configMaps,
	}, func(w *world) {
		w.expectInAnyOrder("at the start", "a: maps Synchronization", "b: maps Synchronization")
		w.hooksDo(func(ctx context.Context, hook string) error {
			if hook == "a" {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		w.must(w.server.Create(configMap("x")))
		w.expectInAnyOrder("after an event", "a: maps Event Added x", "b: maps Event Added x")
		w.must(w.server.Create(configMap("y")))
		w.expectAfter(time.Hour, "while the first hangs", "b: maps Event Added y")
	})
}

func TestAFilterSuppressesEventsWhoseResultDoesNotChange(t *testing.T) {
	inWorld(t, map[string]string{"a": "configVersion: v1\nkubernetes: [{name: maps, kind: ConfigMap, jqFilter: '.data.k'}]"}, func(w *world) {
		w.expect("at the start", "a: maps Synchronization")
		w.must(w.server.Update(configMap("x", "k", "1", "other", "2")))
		w.expect("after a change of another field")
		w.must(w.server.Update(configMap("x", "k", "2")))
		w.expect("after a change of the field", "a: maps Event Modified x")
		if text := w.lastOf("a"); !strings.Contains(text, `"filterResult":"2"`) {
			t.Errorf("the result is not in the context: %s", text)
		}
	}, configMap("x", "k", "1"))
}

func TestAnObjectThatBeginsOrEndsToMatchIsAddedOrDeleted(t *testing.T) {
	inWorld(t, map[string]string{
		"a": "configVersion: v1\nkubernetes: [{name: web, kind: ConfigMap, labelSelector: {matchLabels: {app: web}}}]",
		"b": "configVersion: v1\nkubernetes: [{name: named, kind: ConfigMap, nameSelector: {matchNames: ['y']}, namespace: {nameSelector: {matchNames: [default]}}}]",
	}, func(w *world) {
		w.expect("at the start", "a: web Synchronization", "b: named Synchronization")
		labelled := configMap("x")
		labelled.Labels = map[string]string{"app": "web"}
		w.must(w.server.Update(labelled))
		w.expect("with the label", "a: web Event Added x")
		w.must(w.server.Update(configMap("x")))
		w.expect("without the label", "a: web Event Deleted x")
		w.must(w.server.Create(configMap("y")))
		w.expect("after the creation of y", "b: named Event Added y")
	}, configMap("x"))
}

func TestOnlyTheEventsThatAreAskedForRunTheHook(t *testing.T) {
	inWorld(t, map[string]string{"a": `
configVersion: v1
kubernetes:
- {name: gone, kind: ConfigMap, executeHookOnSynchronization: false, executeHookOnEvent: [Deleted], includeSnapshotsFrom: [all]}
- {name: all, kind: ConfigMap, executeHookOnSynchronization: false, executeHookOnEvent: [], jqFilter: .data.k}
`}, func(w *world) {
		w.must(w.server.Create(configMap("y", "k", "7")))
		w.expect("after a creation")
		w.must(w.server.Delete(configMap("x")))
		w.expect("after a deletion", "a: gone Event Deleted x")
		if text := w.lastOf("a"); !strings.Contains(text, `"snapshots":{"all":[{"filterResult":"7","object":{`) {
			t.Errorf("the snapshot is not in the context: %s", text)
		}
	}, configMap("x"))
}

func TestBindingsOfAGroupRunTheHookOnceWithAllSnapshots(t *testing.T) {
	inWorld(t, map[string]string{"a": `
configVersion: v1
kubernetes:
- {name: one, kind: ConfigMap, group: g, jqFilter: .metadata.name, keepFullObjectsInMemory: false}
- {name: two, kind: Secret, group: g}
`}, func(w *world) {
		w.expect("at the start", "a: two Group")
		if got, want := w.lastOf("a"), `[{"binding":"two","groupName":"g","snapshots":{"one":[{"filterResult":"x"}],"two":[]},"type":"Group"}]`; got != want {
			t.Errorf("the context is %s, want %s", got, want)
		}
	}, configMap("x"))
}

func TestSettingsLimitHowOftenAHookRuns(t *testing.T) {
	inWorld(t, map[string]string{"a": configMaps + "\nsettings: {executionMinInterval: 30s, executionBurst: 2}"}, func(w *world) {
		w.expect("at the start", "a: maps Synchronization")
		w.must(w.server.Create(configMap("x")))
		w.expect("within the burst", "a: maps Event Added x")
		w.must(w.server.Create(configMap("one")))
		w.expect("beyond the burst")
		w.must(w.server.Create(configMap("two")))
		w.expectAfter(30*time.Second, "after the interval", "a: maps Event Added one, maps Event Added two")
	})
}

func TestTheEndOfTheProgramEndsARunOnlyAfterTheGracePeriod(t *testing.T) {
	began := time.Time{}
	inWorld(t, map[string]string{"a": "configVersion: v1\nonStartup: 1\nkubernetes: [{kind: ConfigMap}]"}, func(w *world) {
		w.expect("at the start", "a: onStartup", "a: kubernetes Synchronization")
		w.hooksDo(func(ctx context.Context, _ string) error {
			<-ctx.Done()
			if took := time.Since(began); took != 20*time.Second {
				t.Errorf("the run ended %v after the program was ended, want 20 s", took)
			}
			return ctx.Err()
		})
		w.must(w.server.Create(configMap("x")))
		w.expect("after an event", "a: kubernetes Event Added x")
		began = time.Now()
	})
}

func TestBindingsWithoutNamesKeepTheirOwnEvents(t *testing.T) {
	inWorld(t, map[string]string{"a": `configVersion: v1
kubernetes:
- {kind: ConfigMap, watchEvent: [Added], resynchronizationPeriod: 1h}
- {kind: ConfigMap, executeHookOnEvent: [Deleted], executeHookOnSynchronization: false, queue: gone, waitForSynchronization: false}
schedule:
- {crontab: "0 * * * *"}
- {crontab: "0 12 * * *"}
`}, func(w *world) {
		w.expect("at the start", "a: kubernetes Synchronization")
		w.must(w.server.Create(configMap("x")))
		w.expect("after a creation", "a: kubernetes Event Added x")
		w.must(w.server.Update(configMap("x", "k", "1")))
		w.expect("after a change")
		w.must(w.server.Delete(configMap("x")))
		w.expect("after a deletion", "a: kubernetes Event Deleted x")
	})
}
