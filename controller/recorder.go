package controller

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apieventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	eventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// Recorder records Kubernetes Events, which report to people what happened to an object. Repeated
// Events become a series. Events are sent in the background, one at a time. They may be lost while
// more than 1000 of them are pending, or when the process ends. While the manager does not run,
// nothing is recorded.
type Recorder struct {
	started atomic.Pointer[events.EventRecorderLogger]

	of      *Recorder // of a recorder of Within: the one that sends
	attempt string    // of a recorder of Within: the reconcileID
}

// ReconcileIDAnnotation is the annotation of an Event with the reconcileID of the log: see [Recorder.Within]. Of a series, it names the
// first attempt.
const ReconcileIDAnnotation = "bellerophon.io/reconcile-id"

// Within returns a recorder whose Events name the attempt that ctx belongs to, in the annotation [ReconcileIDAnnotation]. Repeated Events
// of several attempts are one series nevertheless. Outside of a reconcile it returns r.
func (r *Recorder) Within(ctx context.Context) *Recorder {
	request, started, within := operators.AttemptOf(ctx)
	if !within {
		return r
	}
	return &Recorder{of: r, attempt: operators.AttemptID(request.Controller, request.NamespacedName, started)}
}

// Normal records an Event that is for information. reason is in CamelCase and for programs. action is
// what the controller did. note is for people. A note of more than 1024 bytes, which the API server
// would refuse, is cut and ends in "…".
func (r *Recorder) Normal(object streams.Object, reason, action, note string) {
	r.record(object, corev1.EventTypeNormal, reason, action, note)
}

// Warning records an Event that may need a person's action. The note is cut as in Normal.
func (r *Recorder) Warning(object streams.Object, reason, action, note string) {
	r.record(object, corev1.EventTypeWarning, reason, action, note)
}

// record records an Event while the manager runs.
func (r *Recorder) record(object streams.Object, kind, reason, action, note string) {
	sends := r
	if r.of != nil {
		sends = r.of
	}
	started := sends.started.Load()
	if started == nil {
		return
	}
	note = cut(note, maxNote)
	annotating, can := any(*started).(annotatingRecorder)
	if r.of == nil || !can {
		(*started).Eventf(object, nil, kind, reason, action, "%s", note)
		return
	}
	annotating.AnnotatedEventf(object, nil, map[string]string{ReconcileIDAnnotation: r.attempt}, kind, reason, action, "%s", note)
}

// annotatingRecorder is what client-go's recorder has in addition to its interface.
type annotatingRecorder interface {
	AnnotatedEventf(regarding, related runtime.Object, annotations map[string]string, eventtype, reason, action, note string, args ...any)
}

const (
	// maxNote is the number of bytes that the API server accepts in the note of an Event.
	maxNote  = 1024
	ellipsis = "…"
)

// cut shortens a text to at most the given number of bytes, at the border of a rune.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "?") // JSON would replace each invalid byte by three.
	if len(text) <= most {
		return text
	}
	end := most - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// Recorder returns the recorder of Kubernetes Events, which reports as the manager's UserAgent.
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
	m.leader.recordPending()
	<-ctx.Done()
	return nil
}

const (
	// maxEvents is the number of pending Events above which further ones are dropped. The broadcaster
	// has a goroutine for each.
	maxEvents = 1000
	// eventTimeout is how long an Event may hold up the others. The broadcaster retries it later.
	eventTimeout = 10 * time.Second
)

// quietSink sends Events one at a time, until end. So when a hundred objects need a repair, a busy API
// server handles the repairs first. The broadcaster sends from goroutines that it does not wait for.
// After end these goroutines send nothing, and no Event is in flight.
type quietSink struct {
	to      events.EventSink
	pending atomic.Int64
	mu      sync.Mutex // held during a send
	ended   bool
}

// end waits for the Event in flight, and prevents further ones.
func (s *quietSink) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// send sends an Event. If it may not, it drops the Event and returns no error, because the broadcaster
// retries after an error.
func (s *quietSink) send(ctx context.Context, send func(context.Context) (*apieventsv1.Event, error)) (*apieventsv1.Event, error) {
	defer s.pending.Add(-1)
	if s.pending.Add(1) > maxEvents {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
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
