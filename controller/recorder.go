package controller

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apieventsv1 "k8s.io/api/events/v1"
	eventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"

	"github.com/bellerophon-io/bellerophon/streams"
)

// Recorder tells people what happened to an object, as Kubernetes Events. Events that
// repeat become a series. They are sent in the background, one at a time, and may be lost when
// more than a thousand wait for that, or when the process ends. While the manager does not
// run, nothing is recorded.
type Recorder struct {
	started atomic.Pointer[events.EventRecorderLogger]
}

// Normal records something that a person may want to know. Reason is CamelCase and for
// programs, action is what the controller did; the note is for people. A note of more than 1024
// bytes, which the API server would refuse, is cut and ends in "…".
func (r *Recorder) Normal(object streams.Object, reason, action, note string) {
	r.record(object, corev1.EventTypeNormal, reason, action, note)
}

// Warning records something that a person may have to do something about. The note is cut as in
// Normal.
func (r *Recorder) Warning(object streams.Object, reason, action, note string) {
	r.record(object, corev1.EventTypeWarning, reason, action, note)
}

func (r *Recorder) record(object streams.Object, kind, reason, action, note string) {
	if started := r.started.Load(); started != nil {
		(*started).Eventf(object, nil, kind, reason, action, "%s", cut(note, mostNote))
	}
}

const (
	// mostNote is how many bytes the API server takes for the note of an Event.
	mostNote = 1024
	ellipsis = "…"
)

// cut shortens a text to some bytes, and not within a rune.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// Recorder records Kubernetes Events in the name of the manager.
func (m *Manager) Recorder() *Recorder { return m.recorder }

// record runs the recorder until ctx ends.
func (m *Manager) record(ctx context.Context) error {
	client, err := eventsv1.NewForConfigAndClient(m.config, m.http)
	if err != nil {
		return fmt.Errorf("making a client for events: %w", err)
	}
	sink := &quietSink{to: &events.EventSinkImpl{Interface: client}}
	defer sink.end()
	broadcaster := events.NewBroadcaster(sink)
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("starting to record events: %w", err)
	}
	recorder := broadcaster.NewRecorder(m.scheme, m.options.UserAgent)
	m.recorder.started.Store(&recorder)
	defer m.recorder.started.Store(nil)
	<-ctx.Done()
	return nil
}

const (
	// mostEvents is how many Events wait for others to be sent. The broadcaster has a goroutine
	// for each.
	mostEvents = 1000
	// eventPatience is how long an Event may hold up the others. It is tried anew later.
	eventPatience = 10 * time.Second
)

// quietSink sends events until its end, one at a time: where a hundred objects need mending,
// an API server that is busy does that first. The broadcaster sends from goroutines that it does
// not wait for: after the end they send nothing, and nothing is on its way.
type quietSink struct {
	to      events.EventSink
	waiting atomic.Int64
	mu      sync.Mutex // is held by who sends
	ended   bool
}

func (s *quietSink) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// send sends, or drops: an error would be tried again.
func (s *quietSink) send(ctx context.Context, send func(context.Context) (*apieventsv1.Event, error)) (*apieventsv1.Event, error) {
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > mostEvents {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, eventPatience)
	defer cancel()
	return send(ctx)
}

func (s *quietSink) Create(ctx context.Context, event *apieventsv1.Event) (*apieventsv1.Event, error) {
	return s.send(ctx, func(ctx context.Context) (*apieventsv1.Event, error) { return s.to.Create(ctx, event) })
}

func (s *quietSink) Update(ctx context.Context, event *apieventsv1.Event) (*apieventsv1.Event, error) {
	return s.send(ctx, func(ctx context.Context) (*apieventsv1.Event, error) { return s.to.Update(ctx, event) })
}

func (s *quietSink) Patch(ctx context.Context, event *apieventsv1.Event, patch []byte) (*apieventsv1.Event, error) {
	return s.send(ctx, func(ctx context.Context) (*apieventsv1.Event, error) { return s.to.Patch(ctx, event, patch) })
}
