package sourcestest_test

import (
	"testing"

	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/restmapper"
)

func TestADiscoveryClientFindsTheKindsThatAreServed(t *testing.T) {
	horse := schema.GroupVersionKind{Group: "stable.example.com", Version: "v1", Kind: "Hero"}
	server, err := sourcestest.New(sourcestest.Options{
		Scheme: scheme.Scheme, Kinds: []sourcestest.Kind{{GroupVersionKind: horse, Resource: "heroes", ClusterScoped: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	asks, err := discovery.NewDiscoveryClientForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	found, err := restmapper.GetAPIGroupResources(asks)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(found)
	for kind, want := range map[schema.GroupVersionKind]string{
		horse: "heroes root",
		corev1.SchemeGroupVersion.WithKind("ConfigMap"):   "configmaps namespace",
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"): "statefulsets namespace",
	} {
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := mapping.Resource.Resource + " " + string(mapping.Scope.Name()); got != want {
			t.Errorf("%v is served as %s, want %s", kind, got, want)
		}
	}
}
