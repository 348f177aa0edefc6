package sources_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// brought is an object that OnObject got.
type brought struct {
	name, version string
	labels        int
	body          []byte
}

func TestOnObjectGetsTheBodyThatBelongsToItsObject(t *testing.T) {
	config := clustertest.Shared(t).AdminConfig()
	namespace := clustertest.Namespace(t)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	role := &unstructured.Unstructured{}
	role.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("Role")) // As a map, it comes in JSON.
	kind, err := sources.KindOf(scheme.Scheme, role)
	if err != nil {
		t.Fatal(err)
	}
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	connected, err := kind.Client(config, web)
	if err != nil {
		t.Fatal(err)
	}
	roles := client.RbacV1().Roles(namespace)
	create := func(name string) {
		if _, err := roles.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("listed")

	var mu sync.Mutex
	var got []brought
	listed, last := make(chan struct{}), make(chan struct{})
	seen := map[string]chan struct{}{"listed": listed, "last": last}
	events := sources.Watch(connected, kind, sources.WatchOptions{Namespaces: []string{namespace}, OnObject: func(object streams.Object, body []byte) {
		mu.Lock()
		got = append(got, brought{object.GetName(), object.GetResourceVersion(), len(object.GetLabels()), body})
		mu.Unlock()
	}})
	group := lifecycle.New(t.Context())
	group.Go("watch", func(ctx context.Context) error {
		return streams.ForEach(ctx, events, func(batch []streams.Event) {
			for i := range batch {
				if done := seen[batch[i].Key.Name]; done != nil && batch[i].Object != nil {
					close(done)
					delete(seen, batch[i].Key.Name)
				}
			}
		}, func(err error) { t.Log(err) })
	})
	<-listed
	for i := range 50 {
		create(fmt.Sprint("role-", i))
	}
	create("last")
	<-last
	group.Stop()
	_ = group.Wait() // It has the error of its context alone.
	mu.Lock()
	defer mu.Unlock()
	bodies := 0
	for _, each := range got {
		if each.body == nil {
			continue
		}
		bodies++
		var read metav1.PartialObjectMetadata
		if err := json.Unmarshal(each.body, &read); err != nil || read.Name != each.name || read.ResourceVersion != each.version || read.Kind != "Role" || len(read.Labels) != each.labels {
			t.Errorf("the object %s@%s has the body %s, %v", each.name, each.version, each.body, err)
		}
	}
	if bodies < 50 {
		t.Errorf("of %d objects, %d had bodies, want those of the watch", len(got), bodies)
	}
}
