package compat

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

// EventRecorder returns a recorder of Events with the interface that most reconcilers have, over the
// recorder of a manager. The action of an Event is its reason. Annotations become a part of the note,
// because the manager's recorder has none.
func EventRecorder(to *controller.Recorder) record.EventRecorder { return oldRecorder{to} }

// NewEventRecorder returns a recorder of Events with the interface of the API group events.k8s.io, over the
// recorder of a manager. A related object becomes a part of the note.
func NewEventRecorder(to *controller.Recorder) events.EventRecorder { return newRecorder{to} }

// noted records an Event. Objects without metadata, and types other than Normal and Warning, have no Events.
func noted(to *controller.Recorder, object runtime.Object, kind, reason, action, note string) {
	of, is := object.(streams.Object)
	switch {
	case !is:
	case kind == corev1.EventTypeWarning:
		to.Warning(of, reason, action, note)
	case kind == corev1.EventTypeNormal:
		to.Normal(of, reason, action, note)
	}
}

type oldRecorder struct{ to *controller.Recorder }

// Event implements record.EventRecorder.
func (r oldRecorder) Event(object runtime.Object, kind, reason, message string) {
	noted(r.to, object, kind, reason, reason, message)
}

// Eventf implements record.EventRecorder.
func (r oldRecorder) Eventf(object runtime.Object, kind, reason, format string, values ...any) {
	r.Event(object, kind, reason, fmt.Sprintf(format, values...))
}

// AnnotatedEventf implements record.EventRecorder.
func (r oldRecorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, kind, reason, format string, values ...any) {
	note := fmt.Sprintf(format, values...)
	if len(annotations) > 0 {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(annotations)) {
			all = append(all, name+"="+annotations[name])
		}
		note += " (" + strings.Join(all, ", ") + ")"
	}
	r.Event(object, kind, reason, note)
}

type newRecorder struct{ to *controller.Recorder }

// Eventf implements events.EventRecorder.
func (r newRecorder) Eventf(object, related runtime.Object, kind, reason, action, format string, values ...any) {
	note := fmt.Sprintf(format, values...)
	if of, is := related.(streams.Object); is {
		named := of.GetObjectKind().GroupVersionKind().Kind
		if named == "" { // Typed objects mostly leave it out.
			named = reflect.Indirect(reflect.ValueOf(of)).Type().Name()
		}
		note += fmt.Sprintf(" (related: %s %s/%s)", named, of.GetNamespace(), of.GetName())
	}
	noted(r.to, object, kind, reason, action, note)
}
