package history

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Bounds of Options.
const (
	DefaultBytes = 4 << 20
	minBytes     = 64 << 10
	maxBytes     = 1 << 30
)

// maxAttempts is how many attempts of an object are remembered, and maxVersions how many of its changes.
const (
	maxAttempts = 16
	maxVersions = 16
)

// The bytes that an entry takes in addition to what it points to. They are estimates.
const (
	attemptBytes = 640
	causeBytes   = 144
	writeBytes   = 176
	callBytes    = 160
	readBytes    = 144
	changeBytes  = 320
)

// Options configures a [History]. The zero value has the defaults.
type Options struct {
	// Bytes bounds the memory: 64 KiB to 1 GiB; default 4 MiB. Half of it is for attempts, and half for the
	// states of objects before and after a change. It is an estimate.
	Bytes int

	// SizeOf estimates the bytes of an object of a kind. It must be fast. The default is 2 KiB for each kind.
	SizeOf func(kind schema.GroupKind) int

	// Found, if set, is called once for each pattern that is found, by the goroutine that receives the results.
	Found func(finding Finding)

	// IsPartial reports whether the cache keeps a part of the objects of a kind alone. By default it keeps all.
	IsPartial func(kind schema.GroupKind) bool
}

// History remembers attempts. Create it with [New]. Its methods may be called from any goroutine.
type History struct {
	options Options

	mu       sync.Mutex
	attempts shelf[target, attempt]
	changes  shelf[streams.Key, change]
	writers  map[version]*attempt // of remembered attempts, by their writes
	suspects map[target]*suspect  // objects that may be in a pattern
	updated  chan struct{}        // closed with the next attempt or echo; nil without a reader

	// inPattern is how many suspects have a finding. All workers ask for theirs before each attempt, and must not wait for
	// the lock.
	inPattern atomic.Int64
}

// target is an object of a controller.
type target struct {
	controller string
	types.NamespacedName
}

// version is a version of an object.
type version struct {
	key     streams.Key
	version string
}

// attempt is a remembered result.
type attempt struct {
	result operators.Result
	reason string // the error, or ""
}

// change is a remembered change of the cache.
type change struct {
	of streams.Change
	at time.Time // when the cache had it
}

// New creates a history. It returns an error for an option that is out of its range.
func New(options Options) (*History, error) {
	if options.Bytes == 0 {
		options.Bytes = DefaultBytes
	}
	if options.Bytes < minBytes || options.Bytes > maxBytes {
		return nil, fmt.Errorf("history: Bytes is %d; allowed is %d to %d", options.Bytes, minBytes, maxBytes)
	}
	if options.SizeOf == nil {
		options.SizeOf = func(schema.GroupKind) int { return 2 << 10 }
	}
	if options.IsPartial == nil {
		options.IsPartial = func(schema.GroupKind) bool { return false }
	}
	return &History{
		options:  options,
		attempts: shelf[target, attempt]{lines: map[target]line[target, attempt]{}},
		changes:  shelf[streams.Key, change]{lines: map[streams.Key]line[streams.Key, change]{}},
		writers:  map[version]*attempt{}, suspects: map[target]*suspect{},
	}, nil
}

// OnChanges remembers changes of the cache. An attempt that they lead to comes later.
func (h *History) OnChanges(changes []streams.Change) { h.OnChangesAt(time.Now(), changes) }

// OnChangesAt remembers changes of the cache that readers could see from a time on, such as the changes of a recording.
func (h *History) OnChangesAt(now time.Time, changes []streams.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range changes {
		bytes := changeBytes + causeBytes*len(changes[i].Causes)
		if changes[i].Old != nil { // The new state is in the cache anyway.
			bytes += h.options.SizeOf(changes[i].Key.GroupKind)
		}
		made, count := h.changes.add(changes[i].Key, bytes)
		made.value = change{changes[i], now}
		if h.updated != nil && slices.ContainsFunc(changes[i].Causes, h.isOwn) {
			h.notify()
		}
		if count > maxVersions {
			h.changes.forget(h.changes.lines[changes[i].Key].first)
		}
		for h.changes.bytes > h.options.Bytes/2 {
			h.changes.forget(h.changes.oldest)
		}
	}
}

// isOwn reports whether a remembered attempt has written the version of a cause.
func (h *History) isOwn(cause streams.Cause) bool {
	return h.writers[version{cause.Key, cause.ResourceVersion}] != nil
}

// Remember returns the results of attempts as they are, and remembers them.
//
//	[a b] [c]  =>  [a b] [c]
func (h *History) Remember(results streams.Stream[operators.Result]) streams.Stream[operators.Result] {
	return streams.MapOnReceive(results, func(batch []operators.Result) ([]operators.Result, error) {
		h.remember(batch)
		return batch, nil
	})
}

// OnResults does what the operators Remember, HotLoops and Fights do, for results that no pipeline made, such as the ones of a
// recording.
func (h *History) OnResults(results []operators.Result) {
	h.remember(results)
	h.look(results, h.hotLoop)
	h.look(results, h.fight)
}

// remember remembers the results of attempts.
func (h *History) remember(results []operators.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range results {
		result := &results[i]
		if errors.Is(result.Err, pipeline.ErrRemoved) {
			continue // It did not begin.
		}
		bytes, reason := attemptBytes+causeBytes*len(result.Causes)+writeBytes*len(result.Writes)+callBytes*len(result.Calls)+readBytes*len(result.Reads), ""
		if result.Err != nil {
			reason = result.Err.Error()
			bytes += len(reason)
		}
		name := targetOf(result)
		added, count := h.attempts.add(name, bytes)
		made := &added.value
		made.result, made.reason = *result, reason
		made.result.Err = nil // It may point to much.
		for _, write := range made.result.Writes {
			if write.ResourceVersion != "" {
				h.writers[version{write.Key, write.ResourceVersion}] = made
			}
		}
		if count > maxAttempts {
			h.forgetAttempt(h.attempts.lines[name].first)
		}
		for h.attempts.bytes > h.options.Bytes/2 {
			h.forgetAttempt(h.attempts.oldest)
		}
	}
	h.notify()
}

// notify tells the readers that there is more. The caller holds the lock.
func (h *History) notify() {
	if h.updated != nil {
		close(h.updated)
		h.updated = nil
	}
}

// Bytes returns the estimated memory of the history.
func (h *History) Bytes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attempts.bytes + h.changes.bytes
}

func targetOf(result *operators.Result) target {
	return target{result.Controller, result.NamespacedName}
}

// forgetAttempt forgets an attempt. It is the oldest one of its object.
func (h *History) forgetAttempt(gone *entry[target, attempt]) {
	for _, write := range gone.value.result.Writes {
		if wrote := (version{write.Key, write.ResourceVersion}); h.writers[wrote] == &gone.value {
			delete(h.writers, wrote)
		}
	}
	h.attempts.forget(gone)
}
