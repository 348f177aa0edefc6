package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bench/connection"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	namespace = "edge"
	horseKey  = "winged_horse_name"
	drifted   = "drifted"
)

// load changes objects and their ConfigMaps, directly at the API server, and measures how long the changes last.
type load struct {
	*connection.Connection
	horses []string // what each object asks for, by its number
	random *rand.Rand
	sent   int // changes so far

	mu        sync.Mutex
	seen      map[string]sight  // the last event of each ConfigMap
	pending   map[string]change // changes that are not repaired, by the name of the object
	reactions []time.Duration
	fewer     chan struct{} // closed and replaced when a change is repaired
}

// sight is a ConfigMap as the watch showed it.
type sight struct {
	horse   string
	version uint64
	at      time.Time
}

// change is a change that the operator has to follow.
type change struct {
	horse string    // what the ConfigMap has to say
	after uint64    // the version of a drift: a repair has a higher one
	at    time.Time // when the change was answered
}

func newLoad(connected *connection.Connection, objects int) *load {
	return &load{
		Connection: connected, horses: make([]string, objects), random: rand.New(rand.NewPCG(1, 2)), //nolint:gosec // The same load each time.
		seen: map[string]sight{}, pending: map[string]change{}, fewer: make(chan struct{}),
	}
}

func name(i int) string { return fmt.Sprintf("hero-%05d", i) }

// create creates all objects. They count as changes that are not repaired.
func (l *load) create(ctx context.Context) error {
	for i := range l.horses {
		l.horses[i] = "pegasus"
		hero := &v1.BellerophonSimple{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.Kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name(i)},
			Spec:       v1.BellerophonSimpleSpec{WingedHorseName: l.horses[i], Replicas: new(int32(0))},
		}
		if err := l.Heroes().Post().Namespace(namespace).Resource(v1.Plural).Body(hero).Do(ctx).Error(); err != nil {
			return fmt.Errorf("create %s: %w", name(i), err)
		}
		l.wait(name(i), change{horse: l.horses[i], at: time.Now()})
	}
	return nil
}

// watch follows the ConfigMaps until ctx ends.
func (l *load) watch(ctx context.Context) error {
	watched, err := l.Core().CoreV1().ConfigMaps(namespace).Watch(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("watch the ConfigMaps: %w", err)
	}
	defer watched.Stop()
	for {
		select {
		case event, open := <-watched.ResultChan():
			if !open {
				return errors.New("the watch of the ConfigMaps has ended")
			}
			if config, is := event.Object.(*corev1.ConfigMap); is {
				l.see(config, time.Now())
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// see takes in an event of a ConfigMap.
func (l *load) see(config *corev1.ConfigMap, at time.Time) {
	version, _ := strconv.ParseUint(config.ResourceVersion, 10, 64) // The API server's versions are numbers.
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[config.Name] = sight{config.Data[horseKey], version, at}
	l.match(config.Name)
}

// wait takes in a change that was answered. Its repair may have been seen before the answer.
func (l *load) wait(object string, made change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending[object] = made
	l.match(object)
}

// match removes a change whose repair was seen. Its caller holds the lock.
func (l *load) match(object string) {
	made, waits := l.pending[object]
	seen, is := l.seen[object]
	if !waits || !is || seen.horse != made.horse || seen.version <= made.after {
		return
	}
	delete(l.pending, object)
	l.reactions = append(l.reactions, max(0, seen.at.Sub(made.at)))
	close(l.fewer)
	l.fewer = make(chan struct{})
}

// take returns the reactions so far and forgets them.
func (l *load) take() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.reactions
	l.reactions = nil
	return taken
}

// until waits until at most some changes are not repaired.
func (l *load) until(ctx context.Context, left int) error {
	for {
		l.mu.Lock()
		waiting, fewer := len(l.pending), l.fewer
		l.mu.Unlock()
		if waiting <= left {
			return nil
		}
		select {
		case <-fewer:
		case <-ctx.Done():
			return fmt.Errorf("%d changes are not repaired: %w", waiting, context.Cause(ctx))
		}
	}
}

// change makes the next change: of an object, or of its ConfigMap. It takes an object without a pending change.
func (l *load) change(ctx context.Context) error {
	if err := l.until(ctx, len(l.horses)-1); err != nil {
		return err
	}
	at := l.free()
	l.sent++
	if l.sent%2 == 0 {
		return l.drift(ctx, at)
	}
	l.horses[at] = fmt.Sprint("horse ", l.sent)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{horseKey: l.horses[at]}})
	if err != nil {
		return err
	}
	if err := l.Heroes().Patch(types.MergePatchType).Namespace(namespace).Resource(v1.Plural).Name(name(at)).Body(patch).Do(ctx).Error(); err != nil {
		return fmt.Errorf("change %s: %w", name(at), err)
	}
	l.wait(name(at), change{horse: l.horses[at], at: time.Now()})
	return nil
}

// free returns the number of an object without a pending change, from a random place.
func (l *load) free() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.random.IntN(len(l.horses))
	for {
		if _, waits := l.pending[name(at)]; !waits {
			return at
		}
		at = (at + 1) % len(l.horses)
	}
}

func (l *load) drift(ctx context.Context, at int) error {
	patch := []byte(`{"data":{"` + horseKey + `":"` + drifted + `"}}`)
	answer, err := l.Core().CoreV1().ConfigMaps(namespace).Patch(ctx, name(at), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("change the ConfigMap %s: %w", name(at), err)
	}
	version, err := strconv.ParseUint(answer.ResourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("read the version of the ConfigMap %s: %w", name(at), err)
	}
	l.wait(name(at), change{horse: l.horses[at], after: version, at: time.Now()})
	return nil
}

// run makes changes at random times for a while, rate a second on average.
func (l *load) run(ctx context.Context, rate float64, lasting time.Duration) error {
	end, due := time.Now().Add(lasting), time.Now()
	for {
		due = due.Add(time.Duration(l.random.ExpFloat64() / rate * float64(time.Second)))
		if due.After(end) {
			return lifecycle.Pause(ctx, time.Until(end))
		}
		if err := lifecycle.Pause(ctx, time.Until(due)); err != nil {
			return err
		}
		if err := l.change(ctx); err != nil {
			return err
		}
	}
}
