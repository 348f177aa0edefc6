package sourcestest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// line is one line of a recording: an event, or an error notification. Times are since the start of the
// recording.
type line struct {
	At    time.Duration `json:"at"`
	Batch int           `json:"batch"` // lines of one batch are emitted together

	Type            streams.EventType `json:"type,omitempty"`
	Reset           bool              `json:"reset,omitempty"`
	Source          string            `json:"source,omitempty"`
	Key             key               `json:"key"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Received        time.Duration     `json:"received,omitempty"`
	Coalesced       []cause           `json:"coalesced,omitempty"`
	GoType          string            `json:"goType,omitempty"`
	Object          json.RawMessage   `json:"object,omitempty"`

	Error string `json:"error,omitempty"`
}

type key struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

func keyFrom(of streams.Key) key { return key{of.Group, of.Kind, of.Namespace, of.Name} }

func (k key) key() streams.Key {
	return streams.Key{
		GroupKind:      schema.GroupKind{Group: k.Group, Kind: k.Kind},
		NamespacedName: types.NamespacedName{Namespace: k.Namespace, Name: k.Name},
	}
}

type cause struct {
	Type            streams.EventType `json:"type"`
	Key             key               `json:"key"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Received        time.Duration     `json:"received"`
}

// Record returns the stream of a source, such as sources.Watch, and writes a recording of it: a line of JSON for
// each event and each error. [Play] plays it back. If a line cannot be written, an error is emitted, the
// recording ends there, and the stream continues. Observe the stream once.
//
// A recording has the content of the objects. Of Secrets it has the metadata and the keys, and no values.
func Record(events streams.Stream[streams.Event], to io.Writer) streams.Stream[streams.Event] {
	return streams.Create(func(ctx context.Context, out streams.Sink[streams.Event]) {
		r := &recorder{started: time.Now(), to: json.NewEncoder(to)}
		err := streams.ForEach(ctx, events,
			func(batch []streams.Event) {
				failed := r.batch(batch)
				if out.Send(batch); failed != nil {
					out.Error(failed)
				}
			},
			func(err error) {
				failed := r.failure(err)
				if out.Error(err); failed != nil {
					out.Error(failed)
				}
			})
		if err != nil { // An object panicked while it was encoded.
			out.Error(err)
		}
	})
}

// recorder writes a recording.
type recorder struct {
	started time.Time
	to      *json.Encoder
	batches int
	ended   bool // a line could not be written
}

func (r *recorder) since(at time.Time) time.Duration { return at.Sub(r.started) }

func (r *recorder) batch(events []streams.Event) error {
	for i := range events {
		event := &events[i]
		made := line{
			Type: event.Type, Reset: event.Reset, Source: event.Source, Key: keyFrom(event.Key),
			ResourceVersion: event.ResourceVersion, Received: r.since(event.Received),
		}
		for _, of := range event.Coalesced {
			made.Coalesced = append(made.Coalesced, cause{of.Type, keyFrom(of.Key), of.ResourceVersion, r.since(of.Received)})
		}
		var err error
		if event.Object != nil {
			made.GoType = fmt.Sprintf("%T", event.Object)
			made.Object, err = encodedObject(event.Key, event.Object)
		}
		if err = r.write(made, err); err != nil {
			return err
		}
	}
	r.batches++
	return nil
}

func (r *recorder) failure(err error) error {
	made := line{Error: err.Error()}
	var of *streams.Error
	if errors.As(err, &of) {
		made.Source, made.Key, made.Error = of.Source, keyFrom(of.Key), of.Err.Error()
	}
	failed := r.write(made, nil)
	r.batches++
	return failed
}

func (r *recorder) write(made line, err error) error {
	if r.ended {
		return nil
	}
	made.At, made.Batch = r.since(time.Now()), r.batches
	if err == nil {
		err = r.to.Encode(made)
	}
	if err != nil {
		r.ended = true
		return fmt.Errorf("sourcestest: the recording ends at an event of %s: %w", made.Key.key(), err)
	}
	return nil
}

// encodedObject encodes an object. For a Secret, it leaves the values out.
func encodedObject(of streams.Key, object streams.Object) (json.RawMessage, error) {
	encoded, err := json.Marshal(object)
	if err != nil || of.GroupKind != (schema.GroupKind{Kind: "Secret"}) {
		return encoded, err
	}
	var content map[string]any
	if err := json.Unmarshal(encoded, &content); err != nil {
		return nil, err
	}
	kept := map[string]any{}
	for _, part := range []string{"apiVersion", "kind", "metadata", "type", "immutable"} {
		if value, has := content[part]; has {
			kept[part] = value
		}
	}
	if metadata, is := kept["metadata"].(map[string]any); is {
		delete(metadata, "managedFields")
		withoutValues(metadata, "annotations", "redacted") // One may have the last configuration that was applied.
	}
	for _, part := range []string{"data", "stringData"} {
		if value, has := content[part]; has {
			kept[part] = value
			withoutValues(kept, part, "cmVkYWN0ZWQ=") // Base64 of "redacted".
		}
	}
	return json.Marshal(kept)
}

// withoutValues replaces the values of a map.
func withoutValues(in map[string]any, name, by string) {
	values, is := in[name].(map[string]any)
	if !is {
		delete(in, name)
		return
	}
	for key := range values {
		values[key] = by
	}
}
