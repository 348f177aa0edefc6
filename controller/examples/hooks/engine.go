package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// soon is the delay between two runs of one queue.
const soon = time.Millisecond

// item is a reason to run a hook. A reason that waits already is not queued twice.
type item struct {
	hook     *Hook
	schedule *ScheduleBinding     // for a tick
	watch    *watching            // for a kubernetes binding
	name     types.NamespacedName // of the object that changed; Name is empty for a namespace; both are for a Synchronization
}

func (i item) isStartup() bool { return i.schedule == nil && i.watch == nil }

func (i item) allowsFailure() bool {
	switch {
	case i.schedule != nil:
		return i.schedule.AllowFailure
	case i.watch != nil:
		return i.watch.AllowFailure
	}
	return false
}

// queue runs hooks one after the other. The engine's mu guards items and waiting. Only the reconcile of the
// queue uses current, and there is one at a time.
type queue struct {
	items   []item
	waiting map[item]bool
	current *batch // the run that has not succeeded yet
}

// batch is one run of a hook, with all contexts that could be combined.
type batch struct {
	first    item
	contexts []bindingContext
}

// takes reports whether an item can be combined with the batch.
func (b *batch) takes(next item) bool {
	return next.hook == b.first.hook && !next.isStartup() && !b.first.isStartup() && next.allowsFailure() == b.first.allowsFailure()
}

// engine queues the reasons to run hooks, and runs the hooks as a reconciler: the name of a request is the name
// of a queue.
type engine struct {
	logger *slog.Logger
	client *controller.Client
	run    runFunc
	wake   chan types.NamespacedName // queues that may start, once all onStartup hooks have succeeded

	mu      sync.Mutex
	queues  map[string]*queue
	watches map[schema.GroupKind][]*watching
	startup int // onStartup runs that have not succeeded yet
}

// newEngine queues the onStartup runs in their order, and then the Synchronization of each binding.
func newEngine(hooks []*Hook, logger *slog.Logger) *engine {
	made := &engine{logger: logger, queues: map[string]*queue{}, watches: map[schema.GroupKind][]*watching{}}
	made.queue(mainQueue)
	atStart := slices.DeleteFunc(slices.Clone(hooks), func(hook *Hook) bool { return hook.Config.OnStartup == nil })
	slices.SortStableFunc(atStart, func(a, b *Hook) int { return cmp.Compare(*a.Config.OnStartup, *b.Config.OnStartup) })
	for _, hook := range atStart {
		made.push(mainQueue, item{hook: hook})
	}
	made.startup = len(atStart)
	for _, hook := range hooks {
		for _, watch := range hook.watches {
			made.watches[watch.kind.GroupKind()] = append(made.watches[watch.kind.GroupKind()], watch)
			made.push(watch.Queue, item{hook: hook, watch: watch})
		}
		for i := range hook.Config.Schedule {
			made.queue(hook.Config.Schedule[i].Queue)
		}
	}
	made.wake = make(chan types.NamespacedName, len(made.queues))
	return made
}

func (e *engine) queue(name string) *queue {
	if e.queues[name] == nil {
		e.queues[name] = &queue{waiting: map[item]bool{}}
	}
	return e.queues[name]
}

// names returns a request for each queue.
func (e *engine) names() (all []types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name := range e.queues {
		all = append(all, types.NamespacedName{Name: name})
	}
	return all
}

// push queues an item, unless it waits already. The caller holds mu, or is newEngine.
func (e *engine) push(name string, added item) {
	to := e.queue(name)
	if !to.waiting[added] {
		to.waiting[added] = true
		to.items = append(to.items, added)
	}
}

// tick queues the run of a schedule. A tick that comes while the last one waits is dropped.
func (e *engine) tick(hook *Hook, schedule *ScheduleBinding) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.push(schedule.Queue, item{hook: hook, schedule: schedule})
}

// observe notes a change of the cache for each binding that it concerns, and reports whether there is one. It
// must be fast, because the pipeline waits for it: filters run later, in the queue of the hook.
func (e *engine) observe(change streams.Change) (concerns bool) {
	old, _ := change.Old.(*unstructured.Unstructured)
	now, _ := change.New.(*unstructured.Unstructured)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, watch := range e.watches[change.Key.GroupKind] {
		if !watch.executesOnAny() || !watch.follows() {
			continue
		}
		pending := watch.pending[change.Key.NamespacedName]
		switch {
		case pending != nil: // What follows counts, too: an object that does not match any more may be deleted.
		case !watch.selects(old) && !watch.selects(now) && !watch.showed(change.Key.NamespacedName):
			continue
		default:
			pending = &pendingChange{}
			watch.pending[change.Key.NamespacedName] = pending
		}
		pending.note(old, now)
		e.push(watch.Queue, item{hook: watch.hook, watch: watch, name: change.Key.NamespacedName})
		concerns = true
	}
	return concerns
}

// queuesOf returns the queues of the bindings of a kind.
func (e *engine) queuesOf(kind schema.GroupKind) (all []types.NamespacedName) {
	for _, watch := range e.watches[kind] { // It does not change after newEngine.
		if name := (types.NamespacedName{Name: watch.Queue}); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// reconcile runs the first hook of a queue, with the contexts of all items that can be combined. A hook that
// fails stays first, and nothing of its queue passes it.
func (e *engine) reconcile(ctx context.Context, request operators.Request) (time.Duration, error) {
	e.mu.Lock()
	of, held := e.queues[request.Name], e.startup > 0 && request.Name != mainQueue
	e.mu.Unlock()
	if of == nil || request.Namespace != "" || held {
		return 0, nil
	}
	if err := e.fill(ctx, of); err != nil || of.current == nil {
		return 0, err
	}
	hook := of.current.first.hook
	if wait := hook.Config.wait(); wait > 0 {
		return wait, nil // A request that comes earlier adds its contexts, and waits again.
	}
	contexts, err := rendered(ctx, e.client, hook, of.current.contexts)
	if err == nil {
		err = e.run(ctx, hook, contexts)
	}
	if err != nil {
		err = fmt.Errorf("hook %s: %w", hook.Name, err)
		if !of.current.first.allowsFailure() || ctx.Err() != nil {
			return 0, err
		}
		e.logger.Warn("a hook failed, and its binding allows that", "hook", hook.Name, "queue", request.Name, "error", err)
	}
	return e.done(of), nil
}

// done removes the run that has ended, and returns when the next one of the queue is due.
func (e *engine) done(of *queue) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if of.current.first.isStartup() {
		if e.startup--; e.startup == 0 {
			for name := range e.queues {
				e.wake <- types.NamespacedName{Name: name} // It has room for all queues, and this happens once.
			}
		}
	}
	if of.current = nil; len(of.items) == 0 {
		return 0
	}
	return soon
}

// fill moves items of the queue to the current batch, as long as they can be combined. Items that mean
// nothing to the hook are dropped.
func (e *engine) fill(ctx context.Context, of *queue) error {
	for {
		next, change, found := e.pop(of)
		if !found {
			return nil
		}
		contexts, err := e.contexts(ctx, next, change)
		if err != nil { // Only a Synchronization or a namespace fails. Nothing else is pending for them.
			e.mu.Lock()
			of.items = slices.Insert(of.items, 0, next)
			e.mu.Unlock()
			return fmt.Errorf("hook %s: %w", next.hook.Name, err)
		}
		if len(contexts) == 0 {
			continue
		}
		if of.current == nil {
			of.current = &batch{first: next}
		}
		of.current.contexts = append(of.current.contexts, contexts...)
	}
}

// pop removes the first item of a queue and what is pending for it, if the current batch takes it.
func (e *engine) pop(of *queue) (next item, change *pendingChange, found bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(of.items) == 0 || of.current != nil && !of.current.takes(of.items[0]) {
		return item{}, nil, false
	}
	next, of.items = of.items[0], of.items[1:]
	delete(of.waiting, next)
	if next.watch != nil {
		change = next.watch.pending[next.name]
		delete(next.watch.pending, next.name)
	}
	return next, change, true
}

// contexts returns what an item means for the hook now.
func (e *engine) contexts(ctx context.Context, of item, change *pendingChange) (made []bindingContext, err error) {
	switch {
	case of.isStartup():
		return []bindingContext{{}}, nil
	case of.schedule != nil:
		return []bindingContext{{common: &of.schedule.CommonBinding, schedule: true}}, nil
	case of.name == (types.NamespacedName{}):
		err = of.watch.synchronize(ctx, e.client)
		if on := of.watch.ExecuteHookOnSynchronization; err == nil && (on == nil || *on) {
			made = []bindingContext{{common: &of.watch.CommonBinding, of: of.watch}}
		}
		return made, err
	}
	var events []event
	if of.name.Name == "" {
		events, err = of.watch.eventsOf(ctx, e.client, of.name.Namespace)
	} else {
		events = of.watch.events(ctx, of.name, change)
	}
	for _, event := range events {
		made = append(made, bindingContext{common: &of.watch.CommonBinding, of: of.watch, event: &event})
	}
	return made, err
}
