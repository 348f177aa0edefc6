package sources_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// hero is a custom resource as users write them. Its fields' types support protobuf; that must not
// make hero count as a type that does.
type hero struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

func (h *hero) DeepCopyObject() runtime.Object { copied := *h; return &copied }

type heroList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []hero `json:"items"`
}

func (l *heroList) DeepCopyObject() runtime.Object { copied := *l; return &copied }

var heroes = schema.GroupVersion{Group: "example.org", Version: "v1"}

func heroScheme(objects ...runtime.Object) *runtime.Scheme {
	made := runtime.NewScheme()
	for _, object := range objects {
		if _, ok := object.(*hero); ok {
			made.AddKnownTypeWithName(heroes.WithKind("Hero"), object)
		} else {
			made.AddKnownTypeWithName(heroes.WithKind("HeroList"), object)
		}
	}
	return made
}

func TestKindOfFindsThePlaceInTheAPI(t *testing.T) {
	for _, test := range []struct {
		object   streams.Object
		options  []sources.KindOption
		resource string
	}{
		{&corev1.Pod{}, nil, "pods"},
		{&appsv1.StatefulSet{}, nil, "statefulsets"},
		{&networkingv1.NetworkPolicy{}, nil, "networkpolicies"},
		{&networkingv1.Ingress{}, nil, "ingresses"},
		{&discoveryv1.EndpointSlice{}, nil, "endpointslices"},
		{&corev1.Pod{}, []sources.KindOption{sources.Plural("heroes")}, "heroes"},
	} {
		kind, err := sources.KindOf(scheme.Scheme, test.object, test.options...)
		if err != nil {
			t.Fatal(err)
		}
		if kind.Resource() != test.resource || !kind.Namespaced() {
			t.Errorf("%T is %s, namespaced %v; want %s", test.object, kind.Resource(), kind.Namespaced(), test.resource)
		}
	}
}

func TestAKindCanBeClusterScoped(t *testing.T) {
	kind, err := sources.KindOf(scheme.Scheme, &corev1.Node{}, sources.ClusterScoped())
	if err != nil || kind.Namespaced() {
		t.Errorf("namespaced is %v: %v", kind.Namespaced(), err)
	}
}

func TestAKindMakesObjectsAndLists(t *testing.T) {
	kind, err := sources.KindOf(scheme.Scheme, &appsv1.StatefulSet{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := kind.New().(*appsv1.StatefulSet); !ok {
		t.Errorf("New returns a %T", kind.New())
	}
	list, err := kind.NewList()
	if _, ok := list.(*appsv1.StatefulSetList); !ok || err != nil {
		t.Errorf("NewList returns a %T: %v", list, err)
	}
	if kind.GroupVersionKind != appsv1.SchemeGroupVersion.WithKind("StatefulSet") {
		t.Errorf("the kind is %v", kind.GroupVersionKind)
	}
}

func TestKindOfSaysWhatTheSchemeLacks(t *testing.T) {
	_, err := sources.KindOf(runtime.NewScheme(), &corev1.Pod{})
	if err == nil || !strings.Contains(err.Error(), "*v1.Pod; add its package to the scheme") {
		t.Errorf("without the type the error is %v", err)
	}
	_, err = sources.KindOf(heroScheme(&hero{}), &hero{})
	if err == nil || !strings.Contains(err.Error(), "the scheme does not have example.org/v1, Kind=HeroList") {
		t.Errorf("without the list the error is %v", err)
	}
}

// The Accept header of a client shows what it requests: protobuf if the type supports it.
func TestOnlyTypesOfKubernetesTravelAsProtobuf(t *testing.T) {
	own := heroScheme(&hero{}, &heroList{})
	for _, test := range []struct {
		scheme     *runtime.Scheme
		object     streams.Object
		path, want string
	}{
		{scheme.Scheme, &corev1.Pod{}, "/api/v1/pods", "application/vnd.kubernetes.protobuf,application/json"},
		{scheme.Scheme, &appsv1.Deployment{}, "/apis/apps/v1/deployments", "application/vnd.kubernetes.protobuf,application/json"},
		{own, &hero{}, "/apis/example.org/v1/heroes", "application/json"},
	} {
		kind, err := sources.KindOf(test.scheme, test.object, sources.Plural(test.path[strings.LastIndex(test.path, "/")+1:]))
		if err != nil {
			t.Fatal(err)
		}
		recorder := &recorder{}
		client, err := kind.Client(&rest.Config{}, &http.Client{Transport: recorder})
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Get().Resource(kind.Resource()).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
		if got := recorder.last.Header.Get("Accept"); got != test.want {
			t.Errorf("%T is requested as %s, want %s", test.object, got, test.want)
		}
		if recorder.last.URL.Path != test.path {
			t.Errorf("%T is at %s, want %s", test.object, recorder.last.URL.Path, test.path)
		}
	}
}

// recorder answers each request with an empty success, and keeps the last request.
type recorder struct{ last *http.Request }

func (r *recorder) RoundTrip(wanted *http.Request) (*http.Response, error) {
	r.last = wanted
	return &http.Response{
		StatusCode: http.StatusOK, Request: wanted,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(encoded(&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}))),
	}, nil
}
