package controller_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/internal/goals"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// In each attempt, a controller copies the label "asked" of an object to its label "done". Often
// that changes nothing. Another client changes "asked" before, between and after such a write and
// its echo. A schedule is a text of steps:
//
//	a b       another client changes the object of this name
//	. - _ =   1 ms, 20 ms, 1 s, 5 s pass
//
// A second text says how the controller writes, one character for each write, over and over: p is
// a patch on condition of the version that was read, s an apply. The answer to an apply that
// changes nothing may be the write of another client.
const echoSteps = "ab.-_="

// longestBackoff bounds how long a change waits for its reconcile.
const longestBackoff = time.Second

var errConflict = errors.New("conflict")

// writeAsked sets the label "done" to the value of "asked" that was read. It returns the answer, and
// whether the write changed anything.
func (s *lagging) writeAsked(read *metav1.PartialObjectMetadata, how byte) (answer *metav1.PartialObjectMetadata, changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := types.NamespacedName{Namespace: read.Namespace, Name: read.Name}
	now := s.objects[name]
	if how == 'p' && now.ResourceVersion != read.ResourceVersion {
		return nil, false, errConflict
	}
	if now.Labels["done"] == read.Labels["asked"] {
		return now, false, nil
	}
	return s.label(name, "done", read.Labels["asked"]), true, nil
}

// label changes a label of an object. The caller holds s.mu.
func (s *lagging) label(name types.NamespacedName, label, value string) *metav1.PartialObjectMetadata {
	before := s.objects[name]
	s.version++
	after := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: name.Namespace, Name: name.Name, UID: types.UID(name.Name), ResourceVersion: fmt.Sprint(s.version),
		Labels: map[string]string{label: value},
	}}
	if before != nil {
		after.Labels = maps.Clone(before.Labels)
		after.Labels[label] = value
	}
	s.objects[name] = after
	s.emit(streams.Applied, after)
	return after
}

// echoing is a controller that ignores the echoes of its writes, with a record of its attempts.
type echoing struct {
	*lagging
	hows      string
	mu        sync.Mutex
	attempts  map[string][]time.Time // by name: when they started
	writes    int
	uncertain int // writes that changed something and were not Exclusive
	conflicts int
}

func (e *echoing) reconcile(ctx context.Context, request operators.Request) (time.Duration, error) {
	e.mu.Lock()
	how := e.hows[e.writes%len(e.hows)]
	e.writes++
	e.attempts[request.Name] = append(e.attempts[request.Name], time.Now())
	e.mu.Unlock()
	object, found := e.store.Get(request.NamespacedName)
	if !found {
		return 0, fmt.Errorf("%v is not in the cache", request.NamespacedName)
	}
	<-time.After(30 * time.Millisecond) // Requests arrive meanwhile.
	answer, changed, err := e.writeAsked(object.(*metav1.PartialObjectMetadata), how)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.conflicts++
		return 0, err
	}
	sole := changed && how == 'p' // The answer to an apply may have the version of another client's write.
	if changed && !sole {
		e.uncertain++
	}
	operators.RecordWrite(ctx, operators.Write{Verb: "write", Key: streams.KeyOf(modelKinds[0], answer), ResourceVersion: answer.ResourceVersion, Exclusive: sole})
	e.store.RecordWrite(answer, request.Received, time.Time{})
	return 0, nil
}

// checkEchoes plays the steps. It checks that a reconcile followed each foreign change once the
// watch had reported it, and that echoes alone caused none.
func checkEchoes(t *testing.T, text, hows string) (err error) {
	synctest.Test(t, func(t *testing.T) {
		e := &echoing{lagging: newLagging(t), hows: hows, attempts: map[string][]time.Time{}}
		made, failed := pipeline.New(streams.Create(e.inlet.Drain), pipeline.Options{
			Cache:       e.cache,
			Rules:       operators.NewRules(operators.Rule{Controller: "doing", Kind: modelKinds[0]}),
			Controllers: operators.NewControllers(map[string]operators.Controller{"doing": {Reconcile: e.reconcile, IgnoreEchoes: true}}),
			Window:      operators.DefaultWindow,
			Reconcile:   operators.ReconcileOptions{Workers: 2, Backoff: operators.Backoff{Max: longestBackoff, Jitter: -1}},
		})
		if failed != nil {
			t.Fatal(failed)
		}
		e.group.Go("pipeline", func(ctx context.Context) error {
			return made.Run(ctx, func([]operators.Result) {}, func(err error) { t.Error(err) })
		})
		e.follow(time.Millisecond)
		foreign := map[string][]time.Time{} // by name: when the watch reports each change
		for i, step := range text {
			switch step {
			case '.', '-', '_', '=':
				<-time.After(map[rune]time.Duration{'.': time.Millisecond, '-': 20 * time.Millisecond, '_': time.Second, '=': watchLag}[step])
			default:
				e.lagging.mu.Lock()
				e.label(types.NamespacedName{Namespace: "x", Name: string(step)}, "asked", fmt.Sprint(i))
				e.lagging.mu.Unlock()
				foreign[string(step)] = append(foreign[string(step)], time.Now().Add(watchLag))
			}
		}
		<-time.After(10 * time.Minute)
		synctest.Wait()
		err = e.check(foreign)
		e.group.Stop()
		if failed = e.group.Wait(); err == nil {
			err = failed
		}
	})
	if err != nil {
		return fmt.Errorf("steps %q, writes %q: %w", text, hows, err)
	}
	return nil
}

func (e *echoing) check(foreign map[string][]time.Time) error {
	attempts, changes := 0, 0
	for name, reported := range foreign {
		changes += len(reported)
		attempts += len(e.attempts[name])
		for i, at := range reported {
			if !slices.ContainsFunc(e.attempts[name], func(started time.Time) bool {
				return !started.Before(at) && started.Before(at.Add(3*longestBackoff))
			}) {
				return fmt.Errorf("change %d of %s was reported at %v and caused none of the reconciles at %v", i, name, at, e.attempts[name])
			}
		}
	}
	// The echo of a write that is not Exclusive causes one more.
	if most := changes + e.uncertain + e.conflicts; attempts > most {
		return fmt.Errorf("%d reconciles for %d changes, %d conflicts and %d writes that are not Exclusive", attempts, changes, e.conflicts, e.uncertain)
	}
	for name, object := range e.objects {
		if object.Labels["asked"] != object.Labels["done"] {
			return fmt.Errorf("at the end %v is %v", name, object.Labels)
		}
	}
	if level := e.cache.Level(); level != cache.OwnWritesVisible {
		return fmt.Errorf("at the end the level is %v", level)
	}
	return nil
}

func TestNoForeignChangeIsLostBetweenOwnWritesAndTheirEchoes(t *testing.T) {
	withChecks(t, *schedules/20)
	played := 0
	defer func() {
		lost := "0"
		if t.Failed() {
			lost = "1 or more"
		}
		fmt.Print(goals.Line(fmt.Sprintf("foreign changes lost, %d own-write schedules", played), lost, "0", !t.Failed()))
	}()
	steps := rapid.SampledFrom(strings.Split(echoSteps, ""))
	rapid.Check(t, func(rt *rapid.T) {
		played++
		text := strings.Join(rapid.SliceOfN(steps, rapid.SampledFrom([]int{1, 8}).Draw(rt, "at least"), 30).Draw(rt, "steps"), "")
		hows := rapid.SampledFrom([]string{"s", "p", "sp", "ssp", "spp"}).Draw(rt, "writes")
		if err := checkEchoes(t, text, hows); err != nil {
			rt.Fatal(err)
		}
	})
}
