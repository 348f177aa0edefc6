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

// encoding is client-go's encoding with two differences. It takes the kind of a JSON object from
// the first bytes, if they hold it. It records the failures that the server sends on a watch.
type encoding struct {
	runtime.NegotiatedSerializer
	accepts  []runtime.SerializerInfo
	failures *failures // nil: failures are not recorded
	bodies   *bodies   // nil: bodies are not kept
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

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (e encoding) SupportedMediaTypes() []runtime.SerializerInfo { return e.accepts }

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (e encoding) DecoderToVersion(decoder runtime.Decoder, to runtime.GroupVersioner) runtime.Decoder {
	return noting{e.NegotiatedSerializer.DecoderToVersion(decoder, to), e.failures, e.bodies}
}

// noting is a decoder that records failures, and the bodies of objects.
type noting struct {
	runtime.Decoder
	failures *failures
	bodies   *bodies
}

// Decode implements runtime.Decoder.
func (n noting) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	decoded, kind, err := n.Decoder.Decode(data, defaults, into)
	if defaults != nil || into != nil || err != nil {
		return decoded, kind, err
	}
	// Only objects of a watch are decoded without defaults and without a target.
	if status, is := decoded.(*metav1.Status); !is {
		n.bodies.keep(decoded, data)
	} else if status.Status == metav1.StatusFailure {
		n.failures.note(status)
	}
	return decoded, kind, err
}

// failures holds the last failure that the server sent on a watch of a kind. A failure ends the
// watch within client-go's Reflector, which only logs it: see openWatch.
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

// fresh bounds the age of a failure that counts as the end of a watch.
const fresh = time.Second

// take returns the failure that has just come, or nil, and forgets it.
func (f *failures) take() error {
	if f == nil {
		return nil
	}
	if last := f.last.Swap(nil); last != nil && time.Since(last.at) < fresh {
		return &apierrors.StatusError{ErrStatus: *last.status}
	}
	return nil
}

// firstBytes finds the kind of a JSON object. The usual factory decodes the whole object to find
// it, once for a watch event and once for the object in it. That is a third of the time for both
// (BenchmarkAnEventOfACustomResource).
type firstBytes struct {
	kind     schema.GroupVersionKind
	prefixes [][]byte // of objects of the kind
}

func firstBytesOf(kind schema.GroupVersionKind) *firstBytes {
	version := kind.GroupVersion()
	return &firstBytes{kind: kind, prefixes: [][]byte{
		fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,`, version, kind.Kind), // for a custom resource
		fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,`, kind.Kind, version), // for a built-in kind
	}}
}

// events holds the first bytes of watch events, which have no kind.
var events = [][]byte{
	[]byte(`{"type":"ADDED","object":{`), []byte(`{"type":"MODIFIED","object":{`), []byte(`{"type":"DELETED","object":{`), []byte(`{"type":"BOOKMARK","object":{`),
}

// Interpret implements json.MetaFactory. Data that begins in another way, such as an error or a
// list, is decoded by the usual factory.
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
