package sources

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// encoding is that of client-go, except that the kind of a JSON object is read off its first
// bytes where it stands there, and that failures which the server sends are noted.
type encoding struct {
	runtime.NegotiatedSerializer
	accepts  []runtime.SerializerInfo
	failures *failures // nil for nobody who wants to know
}

// encodingOf returns the encoding of a kind.
func encodingOf(scheme *runtime.Scheme, kind schema.GroupVersionKind) encoding {
	usual := serializer.NewCodecFactory(scheme).WithoutConversion()
	made := encoding{NegotiatedSerializer: usual, accepts: usual.SupportedMediaTypes()}
	quick := json.NewSerializerWithOptions(firstBytesOf(kind), scheme, scheme, json.SerializerOptions{})
	for i := range made.accepts {
		accepted := &made.accepts[i]
		if accepted.MediaType != runtime.ContentTypeJSON {
			continue
		}
		stream := *accepted.StreamSerializer
		stream.Serializer = quick
		accepted.Serializer, accepted.StreamSerializer = quick, &stream
	}
	return made
}

// SupportedMediaTypes is the interface's.
func (e encoding) SupportedMediaTypes() []runtime.SerializerInfo { return e.accepts }

// DecoderToVersion is the interface's.
func (e encoding) DecoderToVersion(decoder runtime.Decoder, to runtime.GroupVersioner) runtime.Decoder {
	return noting{e.NegotiatedSerializer.DecoderToVersion(decoder, to), e.failures}
}

// noting is a decoder that notes failures.
type noting struct {
	runtime.Decoder
	failures *failures
}

// Decode is the interface's.
func (n noting) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	decoded, kind, err := n.Decoder.Decode(data, defaults, into)
	// Only what comes on a watch is decoded without any word of what it should be.
	if status, is := decoded.(*metav1.Status); is && status.Status == metav1.StatusFailure && defaults == nil && into == nil {
		n.failures.note(status)
	}
	return decoded, kind, err
}

// failures holds the last failure that the server sent on a watch of a kind. It ends the watch
// within client-go's Reflector, which only logs it: see openWatch.
type failures struct{ last atomic.Pointer[failure] }

type failure struct {
	status *metav1.Status
	at     time.Time
}

func (f *failures) note(status *metav1.Status) {
	if f != nil {
		f.last.Store(&failure{status, time.Now()})
	}
}

// fresh is how old the failure may be that has just ended a watch.
const fresh = time.Second

// take returns the failure of just now, or nil, and forgets it.
func (f *failures) take() error {
	if f == nil {
		return nil
	}
	if last := f.last.Swap(nil); last != nil && time.Since(last.at) < fresh {
		return &apierrors.StatusError{ErrStatus: *last.status}
	}
	return nil
}

// firstBytes finds the kind of JSON. The usual factory decodes all of it for that, once for an
// event of a watch and once for the object in it, which is a third of the time that both take
// (BenchmarkAnEventOfACustomResource).
type firstBytes struct {
	kind     schema.GroupVersionKind
	prefixes [][]byte // of objects of the kind
}

func firstBytesOf(kind schema.GroupVersionKind) *firstBytes {
	version := kind.GroupVersion()
	return &firstBytes{kind: kind, prefixes: [][]byte{
		fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,`, version, kind.Kind), // of a custom resource
		fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,`, kind.Kind, version), // of one that is built in
	}}
}

// events are the first bytes of events, which have no kind.
var events = [][]byte{
	[]byte(`{"type":"ADDED","object":{`), []byte(`{"type":"MODIFIED","object":{`), []byte(`{"type":"DELETED","object":{`), []byte(`{"type":"BOOKMARK","object":{`),
}

// Interpret is the interface's. What begins in another way, such as an error or a list, is
// looked at as a whole.
func (f *firstBytes) Interpret(data []byte) (*schema.GroupVersionKind, error) {
	for _, prefix := range f.prefixes {
		if bytes.HasPrefix(data, prefix) {
			kind := f.kind // The caller changes it.
			return &kind, nil
		}
	}
	for _, event := range events {
		if bytes.HasPrefix(data, event) {
			return &schema.GroupVersionKind{}, nil
		}
	}
	return json.DefaultMetaFactory.Interpret(data)
}
