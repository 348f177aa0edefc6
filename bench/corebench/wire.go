package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
)

// Placeholders in an encoded event have the length of their replacements and occur nowhere else.
// An event therefore costs a copy of its bytes and no encoding.
var (
	keyMark     = strings.Repeat("@", keyDigits)
	versionMark = strings.Repeat("#", len(strconv.Itoa(oldest)))
)

// template is an encoded event with placeholders.
type template struct {
	frame          []byte
	keys, versions []int // the offsets of the placeholders
}

func (t *template) fill(frame []byte, key, n int) []byte {
	frame = append(frame, t.frame...)
	digits, version := fmt.Appendf(nil, "%0*d", keyDigits, key), versionOf(n)
	for _, at := range t.keys {
		copy(frame[at:], digits)
	}
	for _, at := range t.versions {
		copy(frame[at:], version)
	}
	return frame
}

// wireEncoder returns an encoder of a script in a content type of the real API server.
func wireEncoder(scheme *runtime.Scheme, script *script, contentType string) (encoder, error) {
	object := script.make("shero-"+keyMark, versionMark)
	added, err := newTemplate(scheme, script, contentType, watch.Event{Type: watch.Added, Object: object})
	if err != nil {
		return nil, err
	}
	modified, err := newTemplate(scheme, script, contentType, watch.Event{Type: watch.Modified, Object: object})
	if err != nil {
		return nil, err
	}
	end, err := newTemplate(scheme, script, contentType, watch.Event{Type: watch.Bookmark, Object: script.bookmark()})
	if err != nil {
		return nil, err
	}
	return func(frame []byte, n int) []byte {
		switch script.typeOf(n) {
		case watch.Added:
			return added.fill(frame, script.keyOf(n), n)
		case watch.Bookmark:
			return append(frame, end.frame...)
		}
		return modified.fill(frame, script.keyOf(n), n)
	}, nil
}

func newTemplate(scheme *runtime.Scheme, script *script, contentType string, event watch.Event) (*template, error) {
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	info, known := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), contentType)
	if !known {
		return nil, fmt.Errorf("encode %v: there is no serializer for %s", script.kind.GroupVersionKind, contentType)
	}
	var frame bytes.Buffer
	event.Object = event.Object.(streams.Object).DeepCopyObject() // Encoding sets the kind of the object.
	encoder := restwatch.NewEncoder(
		streaming.NewEncoder(info.StreamSerializer.NewFrameWriter(&frame), info.StreamSerializer.Serializer),
		codecs.EncoderForVersion(info.Serializer, script.kind.GroupVersion()))
	if err := encoder.Encode(&event); err != nil {
		return nil, fmt.Errorf("encode %v as %s: %w", script.kind.GroupVersionKind, contentType, err)
	}
	return &template{frame: frame.Bytes(), keys: places(frame.Bytes(), keyMark), versions: places(frame.Bytes(), versionMark)}, nil
}

// places returns the offsets of a mark in a frame.
func places(frame []byte, mark string) []int {
	var found []int
	for at := 0; ; {
		next := bytes.Index(frame[at:], []byte(mark))
		if next < 0 {
			return found
		}
		found = append(found, at+next)
		at += next + len(mark)
	}
}
