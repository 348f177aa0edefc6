package sources_test

import (
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

var configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// setting has the fields of a config map that a program may read, under the names of the API.
type setting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              struct {
		Kept string `json:"kept"`
	} `json:"data"`
}

func (s *setting) DeepCopyObject() runtime.Object { copied := *s; return &copied }

// flag has the fields of a config map that a program may read, under names of its own.
type flag struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	yes bool
}

func (f *flag) DeepCopyObject() runtime.Object { copied := *f; return &copied }

func flagOf(whole *corev1.ConfigMap) *flag { return &flag{yes: whole.Data["kept"] == "yes"} }

// certificate identifies a kind without a Go type.
type certificate struct{}

var certificates = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}

func kindOf(t testing.TB, object streams.Object, options ...sources.KindOption) sources.Kind {
	t.Helper()
	kind, err := sources.KindOf(scheme.Scheme, object, options...)
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

func clientOf(t testing.TB, kind sources.Kind, transport http.RoundTripper) *rest.RESTClient {
	t.Helper()
	client, err := kind.Client(&rest.Config{QPS: -1}, &http.Client{Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestTheGoTypeSaysWhatIsKeptAndAskedFor(t *testing.T) {
	const (
		json     = "application/json"
		protobuf = "application/vnd.kubernetes.protobuf"
		metadata = protobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," + json + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	)
	for _, test := range []struct {
		kind                 sources.Kind
		form                 sources.Form
		name, path, accepted string
	}{
		{kindOf(t, &appsv1.StatefulSet{}), sources.Whole, "StatefulSet.apps", "/apis/apps/v1/statefulsets", protobuf + "," + json},
		{kindOf(t, &sources.Metadata[appsv1.StatefulSet]{}), sources.MetadataOnly, "StatefulSet.apps", "/apis/apps/v1/statefulsets", metadata},
		{kindOf(t, &sources.Metadata[certificate]{}, sources.OfKind(certificates)), sources.MetadataOnly,
			"Certificate.cert-manager.io", "/apis/cert-manager.io/v1/certificates", metadata},
		{kindOf(t, &metav1.PartialObjectMetadata{}, sources.OfKind(certificates)), sources.MetadataOnly,
			"Certificate.cert-manager.io", "/apis/cert-manager.io/v1/certificates", metadata},
		{kindOf(t, &flag{}, sources.Project(flagOf)), sources.Projected, "ConfigMap", "/api/v1/configmaps", protobuf + "," + json},
		{kindOf(t, &setting{}, sources.OfKind(configMaps)), sources.Whole, "ConfigMap", "/api/v1/configmaps", json},
		{kindOf(t, &hero{}, sources.OfKind(heroes.WithKind("Hero")), sources.Plural("heroes")), sources.Whole,
			"Hero.example.org", "/apis/example.org/v1/heroes", json},
	} {
		if test.kind.Form() != test.form || test.kind.GroupKind().String() != test.name || !test.kind.Namespaced() {
			t.Errorf("%v is %v, kept in form %v", test.kind.Type(), test.kind.GroupVersionKind, test.kind.Form())
		}
		recorder := &recorder{}
		if err := clientOf(t, test.kind, recorder).Get().Resource(test.kind.Resource()).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
		if got := recorder.last.Header.Get("Accept"); got != test.accepted {
			t.Errorf("%v is requested as\n%s, want\n%s", test.kind.Type(), got, test.accepted)
		}
		if recorder.last.URL.Path != test.path {
			t.Errorf("%v is at %s, want %s", test.kind.Type(), recorder.last.URL.Path, test.path)
		}
	}
}

// nameless cannot be decoded from the metadata that the runtime needs.
type nameless struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"meta"`
}

func (n *nameless) DeepCopyObject() runtime.Object { copied := *n; return &copied }

func TestAKindThatCannotBeKeptIsRefusedWithAWayOut(t *testing.T) {
	for _, test := range []struct {
		object  streams.Object
		options []sources.KindOption
		want    string
	}{
		{&setting{}, nil, "finding the kind of *sources_test.setting; add its package to the scheme, or name its kind with OfKind: "},
		{&setting{}, []sources.KindOption{sources.OfKind(schema.GroupVersionKind{Kind: "ConfigMap"})},
			"finding the kind of *sources_test.setting: OfKind has /, Kind=ConfigMap; give a version and a kind"},
		{&nameless{}, []sources.KindOption{sources.OfKind(configMaps)},
			"finding the kind of *sources_test.nameless: the type needs namespace, name, uid, resourceVersion and annotations in its metadata; embed metav1.ObjectMeta"},
		{&sources.Metadata[certificate]{}, nil, "finding the kind of *sources.Metadata["},
		{&metav1.PartialObjectMetadata{}, nil, "finding the kind of *v1.PartialObjectMetadata: "},
		{&sources.Metadata[hero]{}, nil, "finding the kind of *sources.Metadata["},
		{&setting{}, []sources.KindOption{sources.Project(flagOf)},
			"finding the kind of *sources_test.setting: Project returns a *sources_test.flag; return the type that is kept"},
		{&flag{}, []sources.KindOption{sources.Project(func(*hero) *flag { return nil })}, "finding the kind of *sources_test.hero; add its package to the scheme"},
		{&sources.Metadata[corev1.Pod]{}, []sources.KindOption{sources.Project(flagOf)}, "finding the kind of *sources.Metadata["},
		{&corev1.Pod{}, []sources.KindOption{sources.Project(flagOf)}, "finding the kind of *v1.Pod: Project returns a *sources_test.flag"},
	} {
		_, err := sources.KindOf(scheme.Scheme, test.object, test.options...)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("the error is %v, want %s...", err, test.want)
		}
	}
}

// owned returns a config map with fields that only a projection or metadata would drop, and with
// fields that must be kept.
func owned(version string) *corev1.ConfigMap {
	made := configMap("a", "x", version)
	made.UID, made.Labels = "u", map[string]string{"app": "red"}
	made.OwnerReferences = []metav1.OwnerReference{{Kind: "Hero", Name: "h"}}
	return made
}

func TestAWatchTellsWhatIsKeptHoweverItIsListed(t *testing.T) {
	partial := func(version string) any {
		made := owned(version)
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
			ObjectMeta: made.ObjectMeta,
		}
	}
	whole := func(version string) any { return owned(version) }
	reference := []metav1.OwnerReference{{Kind: "Hero", Name: "h"}}
	for name, test := range map[string]struct {
		kind     sources.Kind
		sent     func(version string) any
		listType metav1.TypeMeta
		want     func(version string) streams.Object
	}{
		"by the names of its fields": {
			kindOf(t, &setting{}, sources.OfKind(configMaps)), whole, metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"},
			func(version string) streams.Object {
				made := &setting{ObjectMeta: owned(version).ObjectMeta}
				made.ManagedFields, made.Data.Kept = nil, "yes"
				return made
			},
		},
		"by a function": {
			kindOf(t, &flag{}, sources.Project(flagOf)), whole, metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"},
			func(version string) streams.Object {
				return &flag{yes: true, ObjectMeta: metav1.ObjectMeta{
					Namespace: "a", Name: "x", UID: "u", ResourceVersion: version, OwnerReferences: reference}}
			},
		},
		"as metadata": {
			kindOf(t, &sources.Metadata[corev1.ConfigMap]{}), partial,
			metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
			func(version string) streams.Object {
				made := &sources.Metadata[corev1.ConfigMap]{ObjectMeta: owned(version).ObjectMeta}
				made.ManagedFields = nil
				return made
			},
		},
		"as metadata without a Go type": {
			kindOf(t, &metav1.PartialObjectMetadata{}, sources.OfKind(configMaps)), partial,
			metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
			func(version string) streams.Object {
				made := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: owned(version).ObjectMeta}
				made.ManagedFields = nil
				return made
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer()
				answer := func(made *request, version string, items ...any) {
					made.answer(http.StatusOK, io.NopCloser(bytes.NewReader(encoded(map[string]any{
						"apiVersion": test.listType.APIVersion, "kind": test.listType.Kind,
						"metadata": map[string]any{"resourceVersion": version}, "items": items,
					}))))
				}
				stream := func(connection *connection, kind string, object any) {
					frame := encoded(map[string]any{"type": kind, "object": object})
					if _, err := connection.write.Write(append(frame, '\n')); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				check := func(how string, seen *observation, versions ...string) {
					synctest.Wait()
					var objects []streams.Object
					for _, event := range seen.events {
						if event.Object != nil {
							objects = append(objects, event.Object)
						}
					}
					if len(objects) != len(versions) {
						t.Fatalf("%s: %d objects are emitted, want %d; failures: %v", how, len(objects), len(versions), seen.errs)
					}
					for i, version := range versions {
						if want := test.want(version); !reflect.DeepEqual(objects[i], want) {
							t.Errorf("%s: the object is\n%#v, want\n%#v", how, objects[i], want)
						}
					}
					seen.stop(t)
				}
				seen := observe(t, sources.Watch(clientOf(t, test.kind, server), test.kind, sources.WatchOptions{}))
				connection := server.next(t).has(t, "sendInitialEvents", "true").open()
				stream(connection, "ADDED", test.sent("5"))
				end := configMap("", "", "8")
				end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
				if test.kind.Form() == sources.MetadataOnly {
					end.APIVersion, end.Kind = "meta.k8s.io/v1", "PartialObjectMetadata"
				}
				stream(connection, "BOOKMARK", end)
				stream(connection, "MODIFIED", test.sent("9"))
				stream(connection, "DELETED", test.sent("10"))
				check("streamed", seen, "5", "9", "10")

				seen = observe(t, sources.Watch(clientOf(t, test.kind, server), test.kind, sources.WatchOptions{PageSize: 10}))
				list := server.next(t)
				if as := list.header.Get("Accept"); strings.Contains(as, "as=PartialObjectMetadataList;") != (test.kind.Form() == sources.MetadataOnly) {
					t.Errorf("a list is requested as %s", as)
				}
				answer(list, "8", test.sent("5"))
				server.next(t)
				check("listed", seen, "5")

				kept, err := sources.AsWatched(test.kind, sources.WatchOptions{}, owned("6"))
				if want := test.want("6"); err != nil || !reflect.DeepEqual(kept, want) {
					t.Errorf("AsWatched of a whole object returns\n%#v, want\n%#v: %v", kept, want, err)
				}
				again, err := sources.AsWatched(test.kind, sources.WatchOptions{}, kept)
				if err != nil || again != kept {
					t.Errorf("AsWatched of a kept object returns %#v: %v", again, err)
				}
			})
		})
	}
}

func TestAProjectionTakesTheTypeThatItIsOf(t *testing.T) {
	kind := kindOf(t, &flag{}, sources.Project(flagOf))
	_, err := kind.Projected(&corev1.Pod{})
	if err == nil || err.Error() != "a *sources_test.flag is projected from a *v1.ConfigMap, not from a *v1.Pod" {
		t.Errorf("the error is %v", err)
	}
	nothing := kindOf(t, &flag{}, sources.Project(func(*corev1.ConfigMap) *flag { return nil }))
	err = lifecycle.Guard(func() error { _, err := nothing.Projected(owned("5")); return err })
	if err == nil || err.Error() != "panic: the projection of /v1, Kind=ConfigMap returned nil for ConfigMap a/x" {
		t.Errorf("the error is %v", err)
	}
}

func TestMetadataIsCopiedDeeply(t *testing.T) {
	made := &sources.Metadata[corev1.Pod]{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "red"}}}
	copied, ok := made.DeepCopyObject().(*sources.Metadata[corev1.Pod])
	if !ok || copied.Labels["app"] != "red" {
		t.Fatalf("the copy is %#v", made.DeepCopyObject())
	}
	if copied.Labels["app"] = "blue"; made.Labels["app"] != "red" {
		t.Error("the copy shares its labels")
	}
}
