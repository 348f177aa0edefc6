package controller

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"

	"github.com/bellerophon-io/bellerophon/streams"
)

// Recorder tells people what happened to an object, as Kubernetes Events. Events that
// repeat become a series; they are sent in the background and may be lost when the
// process ends. While the manager does not run, nothing is recorded.
type Recorder struct {
	started atomic.Pointer[events.EventRecorderLogger]
}

// Normal records something that a person may want to know. Reason is CamelCase and for
// programs, action is what the controller did; the note is for people.
func (r *Recorder) Normal(object streams.Object, reason, action, note string) {
	r.record(object, corev1.EventTypeNormal, reason, action, note)
}

// Warning records something that a person may have to do something about.
func (r *Recorder) Warning(object streams.Object, reason, action, note string) {
	r.record(object, corev1.EventTypeWarning, reason, action, note)
}

func (r *Recorder) record(object streams.Object, kind, reason, action, note string) {
	if started := r.started.Load(); started != nil {
		(*started).Eventf(object, nil, kind, reason, action, "%s", note)
	}
}

// Recorder records Kubernetes Events in the name of the manager.
func (m *Manager) Recorder() *Recorder { return m.recorder }

// record runs the recorder until ctx ends.
func (m *Manager) record(ctx context.Context) error {
	client, err := eventsv1.NewForConfigAndClient(m.config, m.http)
	if err != nil {
		return fmt.Errorf("making a client for events: %w", err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client})
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
