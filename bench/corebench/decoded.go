package main

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// numbersType is the content type of a decoded feed. A frame is the number of an event.
const numbersType = "application/x-numbers"

const numberSize = 8

func encodeNumber(frame []byte, n int) []byte {
	return binary.BigEndian.AppendUint64(frame, uint64(n))
}

// numbers is a negotiator that handles numbersType in watches, and leaves all other types to the
// real negotiator.
type numbers struct {
	runtime.ClientNegotiator
	objects *decodedObjects
}

func (n numbers) StreamDecoder(contentType string, params map[string]string) (runtime.Decoder, runtime.Serializer, runtime.Framer, error) {
	if contentType != numbersType {
		return n.ClientNegotiator.StreamDecoder(contentType, params)
	}
	return n.objects, &numberedEvents{script: n.objects.script}, wholeReads{}, nil
}

// decodedObjects returns the object of a number as a shallow copy of the object of its key. All
// objects share the values that they point to.
type decodedObjects struct {
	script *script
	held   []streams.Object // by key
}

func newDecodedObjects(script *script) *decodedObjects {
	made := &decodedObjects{script: script, held: make([]streams.Object, script.keys)}
	whole := script.make(nameOf(0), "")
	for key := range made.held {
		name := nameOf(key)
		made.held[key] = shallow(whole)
		made.held[key].SetName(name)
		made.held[key].SetUID(uidOf(name))
		if len(whole.GetOwnerReferences()) > 0 {
			made.held[key].SetOwnerReferences(ownedBy(name))
		}
	}
	return made
}

func (o *decodedObjects) Decode(frame []byte, _ *schema.GroupVersionKind, _ runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	n := int(binary.BigEndian.Uint64(frame))
	if n == o.script.keys {
		return o.script.bookmark(), nil, nil
	}
	object := shallow(o.held[o.script.keyOf(n)])
	object.SetResourceVersion(versionOf(n))
	return object, nil, nil
}

// numberedEvents decodes a number as an event, with the number in place of the object.
type numberedEvents struct {
	runtime.Serializer // Nothing is encoded.
	script             *script
}

func (e *numberedEvents) Decode(frame []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok || len(frame) != numberSize {
		return nil, nil, fmt.Errorf("decode a frame of %d bytes into a %T: want %d bytes and a watch event", len(frame), into, numberSize)
	}
	event.Type = string(e.script.typeOf(int(binary.BigEndian.Uint64(frame))))
	event.Object.Raw = frame
	return event, nil, nil
}

// wholeReads treats each Read as a frame.
type wholeReads struct{}

func (wholeReads) NewFrameReader(r io.ReadCloser) io.ReadCloser { return r }
func (wholeReads) NewFrameWriter(w io.Writer) io.Writer         { return w }
