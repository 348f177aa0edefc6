package controller

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// tape records the inputs of a manager: see Options.Recording. Its methods do nothing for a nil tape.
type tape struct {
	writer *recording.Writer

	// visible is held while a batch of events changes what readers see, and shared while an attempt reads. So the
	// position of a read is exact.
	visible  sync.RWMutex
	position uint64

	attempts atomic.Uint64

	recipients chan struct{} // has an item for each client that gets the recording

	replay *replay // nil unless the manager is in a replay; then there is no writer
}

// newTape creates the tape of a manager, or nil if nothing is recorded.
func newTape(of Options) (*tape, error) {
	if of.Recording == nil {
		return nil, nil
	}
	options := *of.Recording
	options.UserAgent = of.UserAgent
	writer, err := recording.NewWriter(options)
	if err != nil {
		return nil, err
	}
	for _, metric := range []prometheus.Collector{
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "bellerophon_recording_records_total", Help: "Records that were written."},
			func() float64 { records, _ := writer.Written(); return float64(records) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "bellerophon_recording_bytes", Help: "Bytes of the files of the recording."},
			func() float64 { _, bytes := writer.Written(); return float64(bytes) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "bellerophon_recording_up", Help: "Whether the recording goes on."},
			func() float64 {
				if writer.Err() != nil {
					return 0
				}
				return 1
			}),
	} {
		if err := of.Registry.Register(metric); err != nil {
			return nil, err
		}
	}
	return &tape{writer: writer, recipients: make(chan struct{}, mostRecipients)}, nil
}

// run writes the recording until ctx ends.
func (t *tape) run(ctx context.Context, now func() *present) error {
	return t.writer.Run(ctx, func() map[string]schema.GroupKind {
		reconciled := map[string]schema.GroupKind{}
		for name, member := range now().members {
			reconciled[name] = schema.GroupKind{}
			if member.reconciled != nil {
				reconciled[name] = member.reconciled.kind.GroupKind()
			}
		}
		return reconciled
	})
}

// put adds a record that is complete.
func (t *tape) put(record recording.Record, size int) {
	if t.writer != nil {
		t.add(recording.Pending{Record: record}, size)
	}
}

// add adds a record that is made now.
func (t *tape) add(pending recording.Pending, size int) {
	pending.At = time.Now().UnixNano()
	t.writer.Put(pending, size)
}

// mark adds a note.
func (t *tape) mark(text string) {
	if t != nil {
		t.put(recording.Record{Position: t.now(), Mark: text}, len(text))
	}
}

// now returns the position.
func (t *tape) now() uint64 {
	t.visible.RLock()
	defer t.visible.RUnlock()
	return t.position
}

// apply calls a function that applies a batch of events to the cache, and records the batch.
func (t *tape) apply(events []streams.Event, apply func() []streams.Change) {
	recorded := make([]recording.Event, len(events))
	for i := range events {
		event := &events[i]
		recorded[i] = recording.Event{
			Type: event.Type, Reset: event.Reset, Source: event.Source, Key: event.Key, ResourceVersion: event.ResourceVersion,
			HasObject: event.Object != nil, Received: event.Received.UnixNano(), Coalesced: event.Coalesced,
		}
	}
	t.visible.Lock()
	defer t.visible.Unlock()
	t.position++
	removed := noteChanges(recorded, apply())
	t.put(recording.Record{Position: t.position, Events: recorded, Removed: removed}, len(events)*int(reflect.TypeFor[recording.Event]().Size()))
}

// noteChanges notes the change that each event of a batch has caused. It returns the keys that lists have removed.
func noteChanges(events []recording.Event, changes []streams.Change) (removed []streams.Key) {
	at := 0
	for i := range changes {
		change := &changes[i]
		if last := len(change.Causes) - 1; last < 0 || change.Causes[last].Key != change.Key {
			if change.Type == streams.Removed {
				removed = append(removed, change.Key)
			}
			continue
		}
		for j := at; j < len(events); j++ { // Changes have the order of their events.
			if events[j].Key == change.Key {
				events[j].Change, at = change.Type, j+1
				break
			}
		}
	}
	return removed
}

// watched records that the watch of a kind on demand begins or ends.
func (t *tape) watched(kind schema.GroupKind, ended bool) {
	if t == nil {
		return
	}
	t.visible.Lock()
	defer t.visible.Unlock()
	t.position++
	t.put(recording.Record{Position: t.position, Watch: &recording.Watch{Kind: kind, Ended: ended}}, 0)
}

// object records an object of a watch. It is called before the object is converted to the form that the cache keeps.
// Without managed fields, the record has half the bytes.
//
// The body of a watch is recorded as it is: to encode the object again would take most of the time of a recording. A kind
// that is kept in part has the part alone, and the values of Secrets are hashed.
func (t *tape) object(kind sources.Kind, transforms bool) func(object streams.Object, body []byte) {
	if t == nil {
		return nil
	}
	hold, stripped := held, func(object streams.Object) streams.Object { return object }
	if kind.HasPart() && !transforms {
		stripped = withoutManaged()
		if kind.Form() == sources.Projected { // The cache keeps what the projection makes.
			hold = func(object streams.Object, _ bool) streams.Object { return object }
		}
	}
	whole := !kind.HasPart() && !recording.IsSecret(kind.GroupKind())
	return func(object streams.Object, body []byte) {
		record := recording.Record{At: time.Now().UnixNano(), Position: t.now()}
		record.Object = &recording.Object{Key: streams.KeyOf(kind.GroupKind(), object), ResourceVersion: object.GetResourceVersion()}
		if whole && body != nil {
			record.Object.Body = body
			t.writer.Put(recording.Pending{Record: record}, len(body))
			return
		}
		held := hold(object, transforms)
		t.writer.Put(recording.Pending{Record: record, Encode: func(record *recording.Record, redact *recording.Redactor) error {
			return encodeObject(record.Object, stripped(held), redact)
		}}, objectSize)
	}
}

// objectSize is a guess for the bytes of an object that waits for the writer.
const objectSize = 4 << 10

// held returns a copy of an object that nothing changes. A watch drops the managed fields of its object, and a Transform
// of the user may change anything.
func held(object streams.Object, transforms bool) streams.Object {
	if !transforms && isStruct(object) {
		copied := reflect.New(reflect.TypeOf(object).Elem())
		copied.Elem().Set(reflect.ValueOf(object).Elem())
		return copied.Interface().(streams.Object)
	}
	return object.DeepCopyObject().(streams.Object)
}

// isStruct reports whether an object is a struct and not a map.
func isStruct(object streams.Object) bool {
	_, isMap := object.(*unstructured.Unstructured)
	return !isMap && reflect.TypeOf(object).Kind() == reflect.Pointer
}

// withoutManaged returns a function that returns an object without its managed fields. The object stays as it is, and the
// result is valid until the next call.
func withoutManaged() func(object streams.Object) streams.Object {
	var copied reflect.Value
	return func(object streams.Object) streams.Object {
		if !isStruct(object) {
			object = object.DeepCopyObject().(streams.Object)
			sources.DropManagedFields(object)
			return object
		}
		if of := reflect.TypeOf(object); !copied.IsValid() || copied.Type() != of {
			copied = reflect.New(of.Elem())
		}
		copied.Elem().Set(reflect.ValueOf(object).Elem())
		made := copied.Interface().(streams.Object)
		sources.DropManagedFields(made)
		return made
	}
}

// encodeObject sets the body of a record. Protobuf takes a fifth of the time of JSON, and not all types have it.
func encodeObject(record *recording.Object, object streams.Object, redact *recording.Redactor) (err error) {
	if secret, is := object.(*corev1.Secret); is {
		record.IsProto = true
		record.Body, err = redact.Secret(secret).Marshal()
		return err
	}
	if proto, has := object.(interface{ Marshal() ([]byte, error) }); has && !recording.IsSecret(record.Key.GroupKind) {
		record.IsProto = true
		record.Body, err = proto.Marshal()
		return err
	}
	return encodeJSON(record, object, redact)
}

// encodeJSON sets the body of a record, in JSON.
func encodeJSON(record *recording.Object, object streams.Object, redact *recording.Redactor) (err error) {
	if record.Body, err = json.Marshal(object); err == nil && recording.IsSecret(record.Key.GroupKind) {
		record.Body, err = redact.Object(record.Body)
	}
	return err
}

type tapedKey struct{}

// taped is an attempt that is recorded.
type taped struct {
	number uint64

	mu    sync.Mutex
	reads int
	at    uint64    // the position of its last record
	last  time.Time // when that record was made
}

// lateRead is how long after the last record of an attempt a read is recorded, although the cache shows the same. On a busy
// machine an attempt can wait anywhere, and reconcilers ask for the time.
const lateRead = 5 * time.Millisecond

// tapedOf returns the recorded attempt that ctx belongs to, or nil.
func tapedOf(ctx context.Context) *taped {
	found, _ := ctx.Value(tapedKey{}).(*taped)
	return found
}

// attempt returns a reconciler whose attempts are recorded.
func (t *tape) attempt(reconcile operators.Reconciler) operators.Reconciler {
	if t == nil {
		return reconcile
	}
	return func(ctx context.Context, request operators.Request) (again time.Duration, err error) {
		begun := &taped{number: t.attempts.Add(1), at: t.now(), last: time.Now()}
		start := &recording.Start{Attempt: begun.number, Request: request}
		if _, started, within := operators.AttemptOf(ctx); within {
			start.ID = operators.AttemptID(request.Controller, request.NamespacedName, started)
			start.Started = started.UnixNano()
		}
		if queued, within := operators.QueuedOf(ctx); within {
			start.Queued = max(queued, 1) // 0 says that it is not known.
		}
		start.Stalled, _ = ctx.Value(stalledKey{}).(*recording.Stalled)
		t.put(recording.Record{Position: begun.at, Start: start}, 256)
		end := &recording.End{Attempt: begun.number, Panicked: true}
		defer func() {
			end.Cancelled = errors.Is(ctx.Err(), context.Canceled) // A timeout is an outcome of the attempt itself.
			t.put(recording.Record{Position: t.now(), End: end}, 128)
		}()
		again, err = reconcile(context.WithValue(ctx, tapedKey{}, begun), request)
		end.Panicked, end.Again = false, again
		if err != nil {
			end.Err, end.Terminal = err.Error(), operators.IsTerminal(err)
		}
		return again, err
	}
}

// read calls a function that reads the cache and returns what it has read. It records the position, if that is not the
// one of the attempt's last record.
func (t *tape) read(ctx context.Context, read func() []streams.Object) {
	if t.replay != nil {
		t.replay.read(ctx, read)
		return
	}
	of := tapedOf(ctx)
	if of == nil {
		read()
		return
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	of.reads++
	t.visible.RLock()
	read()
	at := t.position
	t.visible.RUnlock()
	if now := time.Now(); at != of.at || now.Sub(of.last) > lateRead {
		of.at, of.last = at, now
		t.put(recording.Record{Position: at, Read: &recording.Read{Attempt: of.number, Number: of.reads}}, 64)
	}
}
