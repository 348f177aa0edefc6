package tracing

import (
	"container/list"
	"context"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"go.opentelemetry.io/otel/trace"
)

// The values of the attribute bellerophon.echo.
const (
	echoSeen    = "seen"
	echoLost    = "lost"    // it did not come within Options.EchoTimeout
	echoNone    = "none"    // neither did it, but the write may have changed nothing
	echoUnknown = "unknown" // the tracer ended, fell behind, or awaited too many
)

// maxStamps is the number of recent versions of an object that are kept.
const maxStamps = 16

// stamp is a version of an object that the cache has received.
type stamp struct {
	version string
	at      time.Time
	deleted bool // whether the object is gone, or is being deleted
}

// echo is a write whose echo is awaited.
type echo struct {
	of    *attempt
	write operators.Write
	span  trace.Span
	until time.Time
	place *list.Element // in Tracer.awaiting
}

// covers reports whether a version of the object shows a write.
func (s stamp) covers(version string) bool {
	if version == "" { // A deletion has no version.
		return s.deleted
	}
	return s.version == version || streams.IsOlderVersion(version, s.version)
}

// find returns when the cache had received a version of an object, or a later one, at a given time or
// after it. before reports whether it had received that version before the time.
func (t *Tracer) find(key streams.Key, version string, since time.Time) (at time.Time, before bool) {
	stamps, _ := t.seen.Get(key)
	for _, stamp := range stamps {
		if !stamp.at.Before(since) {
			if stamp.covers(version) {
				return stamp.at, before
			}
		} else if stamp.version == version {
			before = true
		}
	}
	return time.Time{}, before
}

// onChanges notes what the cache has received, and ends the echoes among it.
func (t *Tracer) onChanges(changes []streams.Change) {
	now := time.Now()
	t.mu.Lock()
	defer t.unlock()
	for i := range changes {
		t.onChange(&changes[i], now)
	}
}

func (t *Tracer) onChange(change *streams.Change, now time.Time) {
	stamps, _ := t.seen.Get(change.Key)
	deleted := change.New == nil && change.Type != streams.Unchanged || change.New != nil && change.New.GetDeletionTimestamp() != nil
	first := len(stamps)
	for _, cause := range change.Causes {
		if cause.Key == change.Key {
			stamps = append(stamps, stamp{cause.ResourceVersion, now, deleted})
		}
	}
	awaited := slices.Clone(t.awaited[change.Key]) // endEcho changes it.
	for _, stamp := range stamps[first:] {
		for _, echo := range awaited {
			if stamp.covers(echo.write.ResourceVersion) && echo.place != nil {
				t.endEcho(echo, echoSeen, now)
			}
		}
	}
	if excess := len(stamps) - maxStamps; excess > 0 {
		stamps = slices.Delete(stamps, 0, excess)
	}
	t.seen.Add(change.Key, stamps)
}

// write makes the span of a write, and awaits its echo if the cache keeps the kind.
func (t *Tracer) write(within context.Context, of *attempt, write *operators.Write) {
	asked := write.Asked
	if asked.IsZero() {
		asked = write.Answered
	}
	described := append(describe(write.Key, write.ResourceVersion), writeVerb.String(write.Verb))
	within, span := t.tracer.Start(within, write.Verb, trace.WithTimestamp(asked), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(described...))
	t.finish(span, write.Answered)
	if write.ResourceVersion != "" {
		t.writes.Add(written{write.Key, write.ResourceVersion}, span.SpanContext())
	}
	if t.manager.Cache().Store(write.Key.GroupKind) == nil {
		return
	}
	made := &echo{of: of, write: *write, until: time.Now().Add(t.timeout)}
	_, made.span = t.tracer.Start(within, "echo", trace.WithTimestamp(write.Answered), trace.WithAttributes(describe(write.Key, write.ResourceVersion)...))
	of.open++
	at, before := t.find(write.Key, write.ResourceVersion, asked)
	switch {
	case !at.IsZero():
		t.endEcho(made, echoSeen, later(at, write.Answered)) // It may come before the answer.
		return
	case before && write.ResourceVersion != "":
		t.endEcho(made, echoNone, write.Answered)
		return
	case t.awaiting.Len() >= maxAwaiting:
		t.endEcho(t.awaiting.Front().Value.(*echo), echoUnknown, time.Now())
	}
	t.awaited[write.Key] = append(t.awaited[write.Key], made)
	made.place = t.awaiting.PushBack(made)
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// endEcho ends the span of an echo, and its trace after the last one.
func (t *Tracer) endEcho(gone *echo, how string, at time.Time) {
	if gone.place != nil {
		t.awaiting.Remove(gone.place)
		gone.place = nil
		key := gone.write.Key
		if t.awaited[key] = slices.DeleteFunc(t.awaited[key], func(e *echo) bool { return e == gone }); len(t.awaited[key]) == 0 {
			delete(t.awaited, key)
		}
	}
	gone.span.SetAttributes(echoOutcome.String(how))
	t.finish(gone.span, at)
	gone.of.open--
	gone.of.extend(at)
	t.finishRoot(gone.of)
}

// endEchoes ends all echoes that are awaited.
func (t *Tracer) endEchoes() {
	now := time.Now()
	for t.awaiting.Len() > 0 {
		t.endEcho(t.awaiting.Front().Value.(*echo), echoUnknown, now)
	}
}

// expire ends the echoes that do not come in time, until ctx ends.
func (t *Tracer) expire(ctx context.Context) error {
	timer := time.NewTimer(t.timeout)
	defer timer.Stop()
	for {
		if next := t.expired(); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-t.changed:
		}
	}
}

// expired ends the echoes whose time has passed, and returns when the next one is lost, or zero.
func (t *Tracer) expired() time.Time {
	now := time.Now()
	t.mu.Lock()
	defer t.unlock()
	for first := t.awaiting.Front(); first != nil; first = t.awaiting.Front() {
		awaited := first.Value.(*echo)
		switch {
		case awaited.until.After(now):
			return awaited.until
		case awaited.write.Exclusive || awaited.write.ResourceVersion == "":
			t.endEcho(awaited, echoLost, now)
		default:
			t.endEcho(awaited, echoNone, now)
		}
	}
	return time.Time{}
}
