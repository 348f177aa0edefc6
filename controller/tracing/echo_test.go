package tracing

import (
	"strconv"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestAVersionThatTheCacheHadBeforeIsNoEcho(t *testing.T) {
	tracer, err := New(noop.NewTracerProvider(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := streams.Key{GroupKind: schema.GroupKind{Kind: "Pod"}, NamespacedName: types.NamespacedName{Namespace: "a", Name: "one"}}
	received := func(kind streams.ChangeType, version string, object streams.Object) {
		tracer.onChanges([]streams.Change{{Type: kind, Key: key, New: object, Causes: []streams.Cause{{Key: key, ResourceVersion: version}}}})
	}
	started := time.Now()
	for version := range 3 * maxStamps {
		received(streams.Updated, strconv.Itoa(version+1), &corev1.Pod{})
	}
	asked := time.Now()
	received(streams.Updated, "100", &corev1.Pod{})
	for _, test := range []struct {
		version       string
		since         time.Time
		found, before bool
	}{
		{"99", asked, true, false},  // A later version shows the write.
		{"100", asked, true, false}, // The echo.
		{"101", asked, false, false},
		{"1", started, true, false}, // It has left the memory; a later version is known.
		{"48", asked, true, true},
		{"", started, false, false}, // No deletion.
	} {
		at, before := tracer.find(key, test.version, test.since)
		if at.IsZero() == test.found || before != test.before {
			t.Errorf("version %q was received at %v, and before: %t", test.version, at, before)
		}
	}
	if stamps, _ := tracer.seen.Get(key); len(stamps) != maxStamps {
		t.Errorf("%d versions are kept, want %d", len(stamps), maxStamps)
	}
	received(streams.Removed, "102", nil)
	if at, _ := tracer.find(key, "", asked); at.IsZero() {
		t.Error("the deletion is not found")
	}
}

// BenchmarkAChange measures what the tracer adds to a change of the cache, in a goroutine of its own.
func BenchmarkAChange(b *testing.B) {
	tracer, err := New(noop.NewTracerProvider(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	changes := make([]streams.Change, 1000)
	for i := range changes {
		key := streams.Key{GroupKind: schema.GroupKind{Kind: "Pod"}, NamespacedName: types.NamespacedName{Namespace: "a", Name: strconv.Itoa(i)}}
		changes[i] = streams.Change{Type: streams.Updated, Key: key, New: &corev1.Pod{}, Causes: []streams.Cause{{Key: key, ResourceVersion: "1"}}}
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		at := n % len(changes)
		tracer.onChanges(changes[at : at+1])
	}
}
