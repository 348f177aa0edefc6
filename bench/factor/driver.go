package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bench/connection"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// namespace is the namespace of the objects.
const namespace = "factor"

// driver writes the load. It records the resource version of each write. These versions
// distinguish events of the load from events that follow from the operator's work. Its methods
// may be called from any goroutine.
type driver struct {
	*connection.Connection
	mu      sync.Mutex
	written map[string]bool // by resource version
}

func newDriver(config *rest.Config) (*driver, error) {
	shared, err := connection.New(config)
	if err != nil {
		return nil, err
	}
	return &driver{Connection: shared, written: map[string]bool{}}, nil
}

// versions returns the resource versions that the load has written so far.
func (d *driver) versions() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.written)
}

// do sends a request and records the resource version of the answer.
func (d *driver) do(ctx context.Context, what string, request *rest.Request) error {
	answer, err := request.Do(ctx).Get()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	object, err := meta.Accessor(answer)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.written[object.GetResourceVersion()] = true
	return nil
}

func (d *driver) create(ctx context.Context, name string, replicas int32) error {
	hero := &v1.BellerophonSimple{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       v1.BellerophonSimpleSpec{Replicas: &replicas},
	}
	return d.do(ctx, "create "+name, d.Heroes().Post().Namespace(namespace).Resource(v1.Plural).Body(hero))
}

// change changes the horse of an object.
func (d *driver) change(ctx context.Context, name, horse string) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"winged_horse_name": horse}})
	if err != nil {
		return err
	}
	return d.patch(ctx, d.Heroes(), v1.Plural, name, patch)
}

func (d *driver) remove(ctx context.Context, name string) error {
	if err := d.Heroes().Delete().Namespace(namespace).Resource(v1.Plural).Name(name).Do(ctx).Error(); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

// clear deletes all objects. The garbage collector deletes their children.
func (d *driver) clear(ctx context.Context) error {
	if err := d.Heroes().Delete().Namespace(namespace).Resource(v1.Plural).Do(ctx).Error(); err != nil {
		return fmt.Errorf("delete all objects: %w", err)
	}
	return nil
}

// drifts lists changes of children that the operator repairs.
var drifts = []struct {
	resource string
	client   func(*driver) rest.Interface
	patch    string
}{
	{"configmaps", func(d *driver) rest.Interface { return d.Core().CoreV1().RESTClient() }, `{"data":{"winged_horse_name":"drifted"}}`},
	{"services", func(d *driver) rest.Interface { return d.Core().CoreV1().RESTClient() }, `{"spec":{"publishNotReadyAddresses":false}}`},
	{"statefulsets", func(d *driver) rest.Interface { return d.Core().AppsV1().RESTClient() }, `{"spec":{"replicas":2}}`},
}

// drift changes a child of an object. kind selects the kind of the child.
func (d *driver) drift(ctx context.Context, name string, kind int) error {
	drift := drifts[kind%len(drifts)]
	return d.patch(ctx, drift.client(d), drift.resource, name, []byte(drift.patch))
}

func (d *driver) patch(ctx context.Context, client rest.Interface, resource, name string, patch []byte) error {
	request := client.Patch(types.MergePatchType).Namespace(namespace).Resource(resource).Name(name).Body(patch)
	return d.do(ctx, "change "+resource+"/"+name, request)
}
