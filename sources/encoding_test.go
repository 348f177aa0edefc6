package sources

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kubernetesjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
)

var heroKind = schema.GroupVersionKind{Group: "stable.example.com", Version: "v1", Kind: "Hero"}

func TestTheKindOfJSONIsWhatKubernetesFinds(t *testing.T) {
	for _, data := range []string{
		`{"apiVersion":"stable.example.com/v1","kind":"Hero","metadata":{"name":"a"}}`,
		`{"kind":"Hero","apiVersion":"stable.example.com/v1","metadata":{"name":"a"}}`,
		`{"apiVersion":"stable.example.com/v1","kind":"Heroes","metadata":{}}`,
		`{"apiVersion":"stable.example.com/v1beta1","kind":"Hero","metadata":{}}`,
		`{"metadata":{},"kind":"Hero","apiVersion":"stable.example.com/v1"}`,
		`{ "apiVersion": "stable.example.com/v1", "kind": "Hero" }`,
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":410}`,
		`{"apiVersion":"stable.example.com/v1","items":[],"kind":"HeroList"}`,
		`{"type":"ADDED","object":{"apiVersion":"stable.example.com/v1","kind":"Hero","metadata":{}}}`,
		`{"type":"BOOKMARK","object":{"kind":"Hero"}}`,
		`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1"}}`,
		`{"type":"ADDED","kind":"Hero","apiVersion":"stable.example.com/v1"}`,
		`{}`, `[]`, `{`, ``, `{"apiVersion":"a/b/c","kind":"Hero"}`,
	} {
		want, wantErr := kubernetesjson.DefaultMetaFactory.Interpret([]byte(data))
		got, err := firstBytesOf(heroKind).Interpret([]byte(data))
		if (err == nil) != (wantErr == nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("for %s: got %v and %v, want %v and %v", data, got, err, want, wantErr)
		}
	}
}

// The keys are unique, because an API server never writes a key twice.
func FuzzTheKindOfAnyObjectIsWhatKubernetesFinds(f *testing.F) {
	f.Add("stable.example.com/v1", "Hero", "name", "a", true)
	f.Add("v1", "Hero", "kind ", `"`, false)
	f.Fuzz(func(t *testing.T, version, kind, key, value string, isEvent bool) {
		data, err := json.Marshal(map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]string{key: value}})
		if err != nil {
			t.Fatal(err)
		}
		if isEvent {
			data = bytes.Join([][]byte{[]byte(`{"type":"MODIFIED","object":`), data, []byte("}")}, nil)
		}
		want, wantErr := kubernetesjson.DefaultMetaFactory.Interpret(data)
		for _, expected := range []schema.GroupVersionKind{heroKind, schema.FromAPIVersionAndKind(version, kind)} {
			got, err := firstBytesOf(expected).Interpret(data)
			if (err == nil) != (wantErr == nil) || !reflect.DeepEqual(got, want) {
				t.Errorf("for %s: got %v and %v, want %v and %v", data, got, err, want, wantErr)
			}
		}
	})
}

// hero is a custom resource with the fields that most have.
type hero struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Image    string `json:"image"`
		Replicas int32  `json:"replicas"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64              `json:"observedGeneration"`
		Conditions         []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

func (h *hero) DeepCopyObject() runtime.Object { copied := *h; return &copied }

// BenchmarkAnEventOfACustomResource decodes one watch event of a custom resource, as client-go
// does.
func BenchmarkAnEventOfACustomResource(b *testing.B) {
	scheme, kind := runtime.NewScheme(), heroKind
	scheme.AddKnownTypeWithName(kind, &hero{})
	encoded, err := json.Marshal(map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
		"metadata": map[string]any{
			"name": "a-hero-of-some-length", "namespace": "default", "uid": "6f7c1c2e-0000-4000-8000-000000000000", "resourceVersion": "123456", "generation": 1,
			"managedFields": []any{map[string]any{"manager": "bench", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{".": map[string]any{}, "f:image": map[string]any{}, "f:replicas": map[string]any{}}}}},
		},
		"spec":   map[string]any{"image": "registry.example/image:1", "replicas": 1},
		"status": map[string]any{"observedGeneration": 1, "conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Ready", "message": "all of the servers are ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	event := bytes.Join([][]byte{[]byte(`{"type":"MODIFIED","object":`), encoded, []byte("}\n")}, nil)
	for name, encoding := range map[string]runtime.NegotiatedSerializer{
		"first bytes": encodingOf(scheme, kind), "usual": serializer.NewCodecFactory(scheme).WithoutConversion(),
	} {
		b.Run(name, func(b *testing.B) {
			info, _ := runtime.SerializerInfoForMediaType(encoding.SupportedMediaTypes(), runtime.ContentTypeJSON)
			objects := encoding.DecoderToVersion(info.Serializer, kind.GroupVersion())
			b.ReportAllocs()
			for b.Loop() {
				frames := info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(bytes.NewReader(event)))
				decoder := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), objects)
				kind, object, err := decoder.Decode()
				if err != nil || kind != watch.Modified || object.(*hero).Generation != 1 {
					b.Fatalf("got %v %v: %v", kind, object, err)
				}
			}
		})
	}
}
