package operators_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// moody has a Map that returns the object x of a controller. The Map panics for an object as often
// as the test has set.
type moody struct {
	mu     sync.Mutex
	panics map[string]int // by object, how many calls from now on
	asked  []string       // object@version, for each call
}

func (m *moody) set(name string, times int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.panics[name] = times
}

func (m *moody) concerns(object streams.Object) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, object.GetName()+"@"+object.GetResourceVersion())
	if m.panics[object.GetName()]--; m.panics[object.GetName()] >= 0 {
		panic("moody about " + object.GetName())
	}
	return []types.NamespacedName{podName("of-" + object.GetName())}
}

// heard returns the calls of the Map since the last call of heard.
func (m *moody) heard() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := m.asked
	m.asked = nil
	return asked
}

func (m *moody) rule(controller string) operators.Rule {
	return operators.Rule{Controller: controller, Kind: podKind, Map: m.concerns}
}

// retried is a Trigger with Retries beside it, and the log of their output.
type retried struct {
	in     feed[streams.Change]
	rules  *operators.Rules
	log    *log
	end    context.CancelFunc
	reader *lifecycle.Group
}

var retryBackoff = operators.Backoff{First: time.Second, Max: 8 * time.Second, Jitter: -1}

func newRetried(t *testing.T, rules ...operators.Rule) *retried {
	r := &retried{in: newFeed[streams.Change](), rules: operators.NewRules(rules...), log: newLog()}
	started := time.Now()
	stream := streams.MergeWith(operators.Trigger(r.in.stream(), r.rules), operators.Retries(r.rules, retryBackoff))
	ctx, end := context.WithCancel(t.Context())
	r.end = end
	r.reader = parallel(t, func(context.Context) {
		_ = streams.ForEach(ctx, stream, func(requests []operators.Request) {
			for _, request := range requests {
				text := requested(request)
				if after := request.Received.Sub(started); after >= 0 {
					text += " received " + after.String()
				}
				r.log.add(text)
			}
		}, func(err error) {
			for text := range strings.SplitSeq(err.Error(), "\n") {
				r.log.add("!" + text)
			}
		})
	})
	return r
}

func (r *retried) stop() {
	r.end()
	_ = r.reader.Wait()
}

func (r *retried) want(t *testing.T, waiting int64, objects, failing int, want string) {
	t.Helper()
	if got := r.log.String(); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	gotObjects, gotFailing := r.rules.PendingRetries()
	if flow := r.rules.Stats(); flow.Waiting.Load() != waiting || flow.Running.Load() != 0 || gotObjects != objects || gotFailing != failing {
		t.Errorf("%d wait, %d run, and of %d objects %d are failing; want %d, 0, %d and %d",
			flow.Waiting.Load(), flow.Running.Load(), gotObjects, gotFailing, waiting, objects, failing)
	}
}

func TestARuleThatPanicsIsAskedAgainUntilItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moody{panics: map[string]int{"a": 4}}
		r := newRetried(t, self, m.rule("moody"), owners)
		r.in.send(change(1, nil, owned("a", "!x")))
		failed := "!rule of moody: Pod ns/a: panic: moody about a"
		first := "0s pods/a(1) sets/x(1) " + failed
		r.want(t, 1, 1, 0, first)
		pass(3500 * time.Millisecond)
		first += " | 1s " + failed + " | 3s " + failed
		r.want(t, 0, 1, 1, first) // The rule has panicked three times.
		pass(20 * time.Second)
		r.want(t, 0, 0, 0, first+" | 7s "+failed+" | 15s moody/of-a(1) received 15s")
		if flow := r.rules.Stats(); flow.In.Load() != 1 || flow.Out.Load() != 1 {
			t.Errorf("%d in, %d out", flow.In.Load(), flow.Out.Load())
		}
		r.stop()
	})
}

func TestEveryPartOfARuleIsAskedAgain(t *testing.T) {
	for name, rule := range map[string]func(panics func()) operators.Rule{
		"When": func(panics func()) operators.Rule {
			return operators.Rule{When: func(streams.Change) bool { panics(); return true }}
		},
		"BeforeSync": func(panics func()) operators.Rule {
			return operators.Rule{BeforeSync: func(streams.Object) bool { panics(); return true }}
		},
		"Map of the old state": func(panics func()) operators.Rule {
			return operators.Rule{Map: func(object streams.Object) []types.NamespacedName {
				if object.GetResourceVersion() == "old" {
					panics()
				}
				return []types.NamespacedName{podName("a")}
			}}
		},
	} {
		bubble(t, name, func(t *testing.T) {
			times := 0
			made := rule(func() {
				if times++; times < 3 {
					panic(errFailed)
				}
			})
			made.Controller, made.Kind = "pods", podKind
			r := newRetried(t, made)
			old, next := owned("a"), owned("a")
			old.ResourceVersion = "old"
			r.in.send(change(1, old, next))
			pass(time.Minute)
			if got := r.log.String(); !strings.HasSuffix(got, "| 3s pods/a(1) received 3s") || strings.Count(got, "!") != 2 {
				t.Errorf("got %s", got)
			}
			r.stop()
		})
	}
}

func TestChangesOfAnObjectThatWaitForARuleAreAskedAboutInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moody{panics: map[string]int{"a": 3}}
		r := newRetried(t, m.rule("moody"))
		r.in.send(change(1, nil, pod("a", "", "v1")))
		r.in.send(change(2, pod("a", "", "v1"), pod("a", "", "v2")), change(3, nil, pod("b", "", "w1")))
		failed := "!rule of moody: Pod ns/a: panic: moody about a"
		sofar := "0s " + failed + " moody/of-b(3) " + failed
		r.want(t, 1, 1, 0, sofar)
		m.set("a", 0)
		pass(time.Minute)
		r.want(t, 0, 0, 0, sofar+" | 1s moody/of-a(1) received 1s moody/of-a(2) received 1s")
		// Each change is passed with its new state first, then with the old one.
		if got, want := strings.Join(m.heard(), " "), "a@v1 a@v2 b@w1 a@v1 a@v2 a@v1"; got != want {
			t.Errorf("asked about %s, want %s", got, want)
		}
		r.stop()
	})
}

func TestOnlyAFewChangesOfAnObjectAreKeptForARule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moody{panics: map[string]int{"a": 100}}
		r := newRetried(t, m.rule("moody"))
		var before streams.Object
		for i := range 100 {
			next := pod("a", "", fmt.Sprint(i))
			r.in.send(change(i, before, next))
			before = next
		}
		m.set("a", 0)
		m.heard()
		pass(time.Second)
		if n := strings.Count(r.log.String(), "moody/of-a"); n != 16 {
			t.Errorf("%d requests came of 100 changes, want 16", n)
		}
		asked := m.heard()
		if first, last := asked[0], asked[len(asked)-2]; first != "a@84" || last != "a@99" || !slices.Contains(asked, "a@98") {
			t.Errorf("asked about %v", asked)
		}
		r.stop()
	})
}

func TestARuleThatIsRemovedIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, other := &moody{panics: map[string]int{"a": 100}}, &moody{panics: map[string]int{"a": 3}}
		r := newRetried(t, m.rule("moody"), other.rule("other"))
		r.in.send(change(1, nil, owned("a")))
		pass(4 * time.Second)
		before := r.log.String()
		r.rules.Remove("moody")
		r.rules.Add(m.rule("moody")) // A different rule, though it looks the same.
		m.heard()
		pass(time.Minute)
		r.want(t, 0, 0, 0, before+" | 7s other/of-a(1) received 7s")
		if asked := m.heard(); len(asked) != 0 {
			t.Errorf("a rule that was removed was asked about %v", asked)
		}
		r.stop()
	})
}

func TestARuleThatIsRemovedWhileItIsAskedIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *retried
		times := 0
		rule := self
		rule.When = func(streams.Change) bool {
			if times++; times == 2 {
				r.rules.Remove("pods")
			}
			panic(errFailed)
		}
		r = newRetried(t, rule)
		r.in.send(change(1, nil, owned("a")))
		pass(time.Hour)
		r.want(t, 0, 0, 0, "0s !rule of pods: Pod ns/a: panic: failed | 1s !rule of pods: Pod ns/a: panic: failed")
		r.stop()
	})
}

func TestARuleThatIsRemovedBeforeItPanicsIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *retried
		rule := self
		rule.When = func(streams.Change) bool {
			r.rules.Remove("pods")
			panic(errFailed)
		}
		r = newRetried(t, rule)
		r.in.send(change(1, nil, owned("a")))
		pass(time.Minute)
		r.want(t, 0, 0, 0, "0s !rule of pods: Pod ns/a: panic: failed")
		r.stop()
	})
}

// Either of two observations may be the one that has the timer for the rule.
func TestAnObservationGoesOnWithWhatAnotherOneLeaves(t *testing.T) {
	for _, ends := range []int{0, 1} {
		bubble(t, fmt.Sprint("number ", ends, " ends"), func(t *testing.T) {
			m := &moody{panics: map[string]int{"a": 1}}
			rules := operators.NewRules(m.rule("moody"))
			retries := operators.Retries(rules, retryBackoff)
			var stop []context.CancelFunc
			var readers []*lifecycle.Group
			requests := make([][]operators.Request, 2)
			for i := range requests {
				ctx, cancel := context.WithCancel(t.Context())
				stop = append(stop, cancel)
				readers = append(readers, parallel(t, func(context.Context) { requests[i], _ = streams.Collect(ctx, retries) }))
			}
			synctest.Wait()
			_, _ = streams.Collect(t.Context(), operators.Trigger(streams.Of(change(1, nil, owned("a"))), rules))
			synctest.Wait()
			stop[ends]()
			pass(time.Minute)
			stop[1-ends]()
			_, _ = readers[0].Wait(), readers[1].Wait()
			if len(requests[1-ends]) != 1 || len(requests[ends]) != 0 {
				t.Errorf("got %v, want one request of the other", requests)
			}
		})
	}
}

func TestAChangeDuringTheAskIsAskedAboutToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *retried
		times := 0
		rule := self
		rule.When = func(streams.Change) bool {
			if times++; times == 2 { // The first call of Retries takes a while, and then returns.
				<-time.After(10 * time.Second)
				return true
			}
			if times < 4 {
				panic(errFailed)
			}
			return true
		}
		r = newRetried(t, rule)
		r.in.send(change(1, nil, owned("a")))
		pass(5 * time.Second)
		if flow := r.rules.Stats(); flow.Waiting.Load()+flow.Running.Load() == 0 {
			t.Error("nothing seems to wait during the ask")
		}
		r.in.send(change(2, nil, owned("a")))
		pass(time.Minute)
		failed := "!rule of pods: Pod ns/a: panic: failed"
		r.want(t, 0, 0, 0, "0s "+failed+" | 5s "+failed+" | 11s pods/a(1) received 1s | 12s pods/a(2) received 12s")
		r.stop()
	})
}

func TestAPartOfTheRulesIsAskedAgainWithTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moody{panics: map[string]int{"a": 1}}
		r := newRetried(t, m.rule("moody"), self)
		requests, errs := streams.Collect(t.Context(), operators.Trigger(streams.Of(change(1, nil, owned("a"))), r.rules.ForController("moody")))
		if len(requests) != 0 || len(errs) != 1 {
			t.Errorf("got %v and %v", requests, errs)
		}
		pass(time.Minute)
		r.want(t, 0, 0, 0, "1s moody/of-a(1) received 1s")
		r.stop()
	})
}

func TestWithoutRetriesNothingIsKept(t *testing.T) {
	rules := operators.NewRules((&moody{panics: map[string]int{"a": 1}}).rule("moody"))
	_, errs := streams.Collect(t.Context(), operators.Trigger(streams.Of(change(1, nil, owned("a"))), rules))
	if objects, _ := rules.PendingRetries(); objects != 0 || len(errs) != 1 {
		t.Errorf("%d objects wait, after %v", objects, errs)
	}
}

func TestWhatIsToBeAskedOutlivesAnObservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moody{panics: map[string]int{"a": 1}}
		r := newRetried(t, m.rule("moody"))
		r.in.send(change(1, nil, owned("a")))
		r.stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		requests, errs := streams.Collect(ctx, operators.Retries(r.rules, retryBackoff))
		if len(requests) != 1 || len(errs) != 0 {
			t.Errorf("got %v and %v", requests, errs)
		}
	})
}

func TestRetriesRefuseABackoffOutOfRange(t *testing.T) {
	defer func() {
		if err, _ := recover().(error); err == nil || err.Error() != "retries: backoff: Jitter is 0.6; allowed is up to 0.5" || errors.Unwrap(err) == nil {
			t.Errorf("panicked with %v", err)
		}
	}()
	operators.Retries(operators.NewRules(), operators.Backoff{Jitter: 0.6})
}
