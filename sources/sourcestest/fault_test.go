package sourcestest_test

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"k8s.io/apimachinery/pkg/watch"
)

// Each fault is injected when the watch is open. Then b is created at 0 s, c is created at 0 s, and
// b is changed at 20 s. The events of the stream are recorded before and after the change.
func TestAWatchTellsOfEachFault(t *testing.T) {
	const created, other, changed = "Applied b=1", "Applied c=1", "Applied b=2"
	relist := []string{"ListStart ", "Listed a=1", "Listed b=1", "Listed c=1", "ListEnd "}
	tests := map[string]struct {
		fault       sourcestest.Fault
		atOnce      []string
		inTenth     []string // within the first 10 s
		afterChange []string
		opened      int // all watches opened during the test
	}{
		"no fault": {
			fault: sourcestest.Fault{Action: sourcestest.Drop, Name: "nobody"}, atOnce: []string{created, other},
			afterChange: []string{changed}, opened: 1,
		},
		"drop": {
			fault: sourcestest.Fault{Action: sourcestest.Drop}, atOnce: []string{other},
			afterChange: []string{changed}, opened: 1,
		},
		"duplicate": {
			fault: sourcestest.Fault{Action: sourcestest.Duplicate}, atOnce: []string{created, created, other},
			afterChange: []string{changed}, opened: 1,
		},
		"delay": {
			fault:   sourcestest.Fault{Action: sourcestest.Delay, For: 5 * time.Second},
			inTenth: []string{created, other}, afterChange: []string{changed}, opened: 1,
		},
		"reorder": {
			fault: sourcestest.Fault{Action: sourcestest.Reorder}, atOnce: []string{other, created},
			afterChange: []string{changed}, opened: 1,
		},
		"reorder of the last event": {
			fault: sourcestest.Fault{Action: sourcestest.Reorder, Name: "c"}, atOnce: []string{created},
			inTenth: []string{other}, afterChange: []string{changed}, opened: 1,
		},
		"cut": {
			fault: sourcestest.Fault{Action: sourcestest.Cut, Name: "c"}, atOnce: []string{created, other},
			afterChange: []string{changed}, opened: 2,
		},
		"end": {
			fault: sourcestest.Fault{Action: sourcestest.End, Name: "c"}, atOnce: []string{created, other},
			afterChange: []string{changed}, opened: 2,
		},
		"expire": {
			fault: sourcestest.Fault{Action: sourcestest.Expire, Name: "c"}, atOnce: []string{created},
			inTenth: relist, afterChange: []string{changed}, opened: 2,
		},
		"silence": {
			fault: sourcestest.Fault{Action: sourcestest.Silence, Name: "c"}, atOnce: []string{created}, opened: 1,
		},
		"fail": {
			fault: sourcestest.Fault{Action: sourcestest.Fail, Name: "c"}, atOnce: []string{created, "Disconnected "},
			inTenth: relist, afterChange: []string{changed}, opened: 2,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, sourcestest.Options{})
				must(t, server.Create(configMap("a", "1")))
				seen := observe(t, server)
				same(t, "list", seen.emitted(t, time.Millisecond), "ListStart ", "Listed a=1", "ListEnd ")
				must(t, server.Inject(test.fault))
				must(t, server.Create(configMap("b", "1")))
				must(t, server.Create(configMap("c", "1")))
				same(t, "at once", seen.emitted(t, time.Millisecond), test.atOnce...)
				same(t, "in 10 s", sorted(seen.emitted(t, 10*time.Second)), test.inTenth...)
				must(t, server.Update(configMap("b", "2")))
				same(t, "after a change", seen.emitted(t, 10*time.Second), test.afterChange...)
				counts := server.Counts()
				if got := counts.Requests["watch configmaps"]; got != test.opened {
					t.Errorf("%d watches were opened, want %d", got, test.opened)
				}
				if want := map[bool]int{true: 0, false: 1}[name == "no fault"]; counts.Faults[test.fault.Action] != want {
					t.Errorf("the faults are %v, want %d of %v", counts.Faults, want, test.fault.Action)
				}
				seen.stop(t)
				if open := server.Counts().Watches; open != 0 {
					t.Errorf("%d watches are open after the end", open)
				}
			})
		})
	}
}

// sorted returns a list with its objects sorted by name, because their order has no meaning.
func sorted(lines []string) []string {
	for i := range lines {
		for j := i; j > 0 && strings.HasPrefix(lines[j-1], "Listed") && strings.HasPrefix(lines[j], "Listed") && lines[j] < lines[j-1]; j-- {
			lines[j-1], lines[j] = lines[j], lines[j-1]
		}
	}
	return lines
}

func TestEventsOfOneObjectAreReorderedOnlyOnDemand(t *testing.T) {
	for name, test := range map[string]struct {
		within bool
		want   []string
	}{
		"by default": {false, []string{"Applied a=1", "Applied a=2"}},
		"on demand":  {true, []string{"Applied a=2", "Applied a=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, sourcestest.Options{Script: []sourcestest.Fault{
					{Action: sourcestest.Reorder, WithinKey: test.within},
				}})
				seen := observe(t, server)
				seen.emitted(t, time.Millisecond)
				must(t, server.Create(configMap("a", "1")))
				must(t, server.Update(configMap("a", "2")))
				same(t, "events", seen.emitted(t, time.Minute/2), test.want...)
				seen.stop(t)
			})
		})
	}
}

func TestTheEndOfAListDoesNotOvertakeItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{Script: []sourcestest.Fault{{Action: sourcestest.Reorder, Name: "b"}}})
		must(t, server.Create(configMap("a", "1")))
		must(t, server.Create(configMap("b", "1")))
		seen := observe(t, server)
		same(t, "list", sorted(seen.emitted(t, time.Minute/2)), "ListStart ", "Listed a=1", "Listed b=1", "ListEnd ")
		seen.stop(t)
	})
}

// If all events except bookmarks are dropped, the bookmarks say that the client has everything.
// Only a list shows the lost events.
func TestAWatchOfBookmarksAloneLosesAllUntilItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{Script: []sourcestest.Fault{
			{Action: sourcestest.Drop, Times: sourcestest.Always},
		}})
		seen := observe(t, server)
		seen.emitted(t, time.Millisecond)
		must(t, server.Create(configMap("a", "1")))
		same(t, "in 2 min", seen.emitted(t, 2*time.Minute), "Bookmark ", "Bookmark ")
		server.Heal()
		server.Break()
		same(t, "after the watch was resumed", seen.emitted(t, 10*time.Second))
		must(t, server.Inject(sourcestest.Fault{Action: sourcestest.Expire}))
		must(t, server.Create(configMap("b", "1")))
		same(t, "after it expired", sorted(seen.emitted(t, 10*time.Second)), "ListStart ", "Listed a=1", "Listed b=1", "ListEnd ")
		seen.stop(t)
	})
}

func TestAWatchThatResumesBehindTheHistoryExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{})
		seen := observe(t, server)
		seen.emitted(t, time.Millisecond)
		must(t, server.Inject(sourcestest.Fault{Action: sourcestest.Disconnect, Verb: "watch"}))
		server.Break()
		must(t, server.Create(configMap("a", "1")))
		server.Compact()
		same(t, "events", seen.emitted(t, 10*time.Second), "Disconnected ", "ListStart ", "Listed a=1", "ListEnd ")
		seen.stop(t)
	})
}

// noStream refuses streamed lists, so that a plain list follows.
var noStream = sourcestest.Fault{Action: sourcestest.Refuse, Verb: "watch", Code: 422}

func TestRefusedRequestsAreReportedAndTriedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		script []sourcestest.Fault
		errs   []string      // a part of each failure
		late   time.Duration // the shortest time until the list
	}{
		"503": {[]sourcestest.Fault{{Action: sourcestest.Refuse, Verb: "watch"}}, []string{"cannot list configmaps in all namespaces"}, 0},
		"503 of a plain list": {
			[]sourcestest.Fault{noStream, {Action: sourcestest.Refuse, Verb: "list"}}, []string{"cannot list configmaps in all namespaces"}, 0,
		},
		"500":                  {[]sourcestest.Fault{{Action: sourcestest.Refuse, Verb: "watch", Code: 500}}, []string{"refused by the test"}, 0},
		"410":                  {[]sourcestest.Fault{{Action: sourcestest.Refuse, Verb: "watch", Code: 410}}, nil, 0}, // A list follows.
		"503 with Retry-After": {[]sourcestest.Fault{{Action: sourcestest.Refuse, Verb: "watch", RetryAfter: 3 * time.Second}}, nil, 3 * time.Second},
		"no connection": {
			[]sourcestest.Fault{{Action: sourcestest.Disconnect, Verb: "watch", Times: 2}}, []string{"connection refused", "connection refused"}, 300 * time.Millisecond,
		},
		// Client-go takes this for a watch that has ended.
		"no answer": {[]sourcestest.Fault{{Action: sourcestest.LoseAnswer, Verb: "watch"}}, nil, 0},
		// Client-go itself waits and retries.
		"429":                 {[]sourcestest.Fault{{Action: sourcestest.Refuse, Code: 429, RetryAfter: 3 * time.Second}}, nil, 3 * time.Second},
		"429 of a plain list": {[]sourcestest.Fault{noStream, {Action: sourcestest.Refuse, Verb: "list", Code: 429, RetryAfter: 3 * time.Second}}, nil, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, sourcestest.Options{Script: test.script})
				must(t, server.Create(configMap("a", "1")))
				seen := observe(t, server)
				if test.late > 0 {
					same(t, "before", seen.emitted(t, test.late-time.Millisecond))
				}
				same(t, "in the end", seen.emitted(t, 20*time.Second), "ListStart ", "Listed a=1", "ListEnd ")
				if len(seen.errs) != len(test.errs) {
					t.Fatalf("the failures are %q, want %q", seen.errs, test.errs)
				}
				for i, want := range test.errs {
					if !strings.Contains(seen.errs[i], want) {
						t.Errorf("the failure is %q, want %q in it", seen.errs[i], want)
					}
				}
				want := map[sourcestest.Action]int{}
				for _, fault := range test.script {
					want[fault.Action] += max(fault.Times, 1)
				}
				if got := server.Counts().Faults; !maps.Equal(got, want) {
					t.Errorf("the faults were %v, want %v", got, want)
				}
				seen.stop(t)
				if open := server.Counts().Watches; open != 0 {
					t.Errorf("%d watches are open after the end", open)
				}
			})
		})
	}
}

func TestASlowListComesLate(t *testing.T) {
	for name, script := range map[string][]sourcestest.Fault{
		"streamed": {{Action: sourcestest.Slow, Verb: "watch", For: 40 * time.Second}},
		"plain":    {noStream, {Action: sourcestest.Slow, Verb: "list", For: 40 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, sourcestest.Options{Script: script})
				seen := observe(t, server)
				same(t, "before", seen.emitted(t, 39*time.Second))
				same(t, "then", seen.emitted(t, 2*time.Second), "ListStart ", "ListEnd ")
				seen.stop(t)
			})
		})
	}
}

func TestAKindThatVanishesComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{})
		must(t, server.Create(configMap("a", "1")))
		seen := observe(t, server)
		seen.emitted(t, time.Millisecond)
		must(t, server.Uninstall(configMap("")))
		same(t, "at the end of the kind", seen.emitted(t, time.Minute), "Deleted a", "Disconnected ")
		if len(seen.errs) == 0 || !strings.Contains(seen.errs[0], "could not find the requested resource") {
			t.Errorf("the failures are %q", seen.errs)
		}
		if err := server.Create(configMap("b")); err == nil || !strings.Contains(err.Error(), "call Install first") {
			t.Errorf("creating an object without its kind: %v", err)
		}
		must(t, server.Install(configMap("")))
		must(t, server.Create(configMap("b", "1")))
		if got := seen.emitted(t, time.Minute); seen.state["b"] != "1" || len(seen.state) != 1 {
			t.Errorf("after the kind's return the state is %v, the events are %q", seen.state, got)
		}
		seen.stop(t)
	})
}

func TestTheScriptTakesMatchesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{Script: []sourcestest.Fault{
			{Action: sourcestest.Drop, Type: watch.Modified, Nth: 2, Times: 2},
			{Action: sourcestest.Duplicate, Type: watch.Modified, Nth: 3},
		}})
		must(t, server.Create(configMap("a", "0")))
		seen := observe(t, server)
		seen.emitted(t, time.Millisecond)
		for _, value := range []string{"1", "2", "3", "4", "5"} {
			must(t, server.Update(configMap("a", value)))
		}
		// Both faults are due at 3. The drop happens, its second time, and the duplicate waits for
		// the next match.
		same(t, "events", seen.emitted(t, time.Second), "Applied a=1", "Applied a=4", "Applied a=4", "Applied a=5")
		seen.stop(t)
	})
}
