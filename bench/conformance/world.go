package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// world is a cluster with a process under test.
type world struct {
	options   Options
	subject   Subject
	core      kubernetes.Interface
	any       dynamic.Interface
	proxy     *proxy
	process   Process
	reference string // the namespace in which the API server completes the expected children
}

// trial is one running check, with its own namespace.
type trial struct {
	*world
	namespace string
	notes     []string
}

// note adds to the report an observation that is neither right nor wrong.
func (t *trial) note(format string, arguments ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, arguments...))
}

// noteEvents notes how many Kubernetes Events the process wrote since a mark. The contract does
// not compare Events, so they do not count as writes.
func (t *trial) noteEvents(mark int) {
	events := t.proxy.since(mark, func(c *call) bool { return c.isEvent() && c.isWrite() && c.Namespace == t.namespace })
	if len(events) > 0 {
		t.note("it wrote %d Kubernetes Events, which are not counted", len(events))
	}
}

// makeNamespace creates a namespace with a new name.
func (w *world) makeNamespace(ctx context.Context) (string, error) {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-"}}
	made, err := w.core.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create a namespace: %w", err)
	}
	// The API server refuses Pods until the namespace has its service account.
	account := schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	_, err = w.await(ctx, account, made.Name, "default", exists)
	return made.Name, err
}

func (w *world) removeNamespace(ctx context.Context, name string) error {
	if err := w.core.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete the namespace %s: %w", name, err)
	}
	return nil
}

// exists returns an error if an object does not exist.
func exists(object *unstructured.Unstructured) error {
	if object == nil {
		return errors.New("it does not exist")
	}
	return nil
}

// gone returns an error if an object still exists.
func gone(object *unstructured.Unstructured) error {
	if object != nil {
		return errors.New("it still exists")
	}
	return nil
}

// await waits until check accepts an object. check receives nil while the object does not exist.
// After the timeout, the error says why check rejected the last version.
func (w *world) await(ctx context.Context, resource schema.GroupVersionResource, namespace, name string,
	check func(*unstructured.Unstructured) error) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, w.options.Patience)
	defer cancel()
	client := w.any.Resource(resource).Namespace(namespace)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	list, err := client.List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", resource.Resource, name, err)
	}
	var last *unstructured.Unstructured
	if len(list.Items) > 0 {
		last = &list.Items[0]
	}
	wrong := check(last)
	if wrong == nil {
		return last, nil
	}
	watcher, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: selector, ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return nil, fmt.Errorf("watch %s %s: %w", resource.Resource, name, err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			return last, fmt.Errorf("watch %s %s: %v", resource.Resource, name, event.Object)
		}
		last = object
		if event.Type == watch.Deleted {
			last = nil
		}
		if wrong = check(last); wrong == nil {
			return last, nil
		}
	}
	return last, fmt.Errorf("%s %s, after %v: %w", resource.Resource, name, w.options.Patience, wrong)
}

// hero returns a new object for the trial's namespace.
func (t *trial) hero(name string, replicas int32) *v1.BellerophonSimple {
	return &v1.BellerophonSimple{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: t.namespace},
		Spec: v1.BellerophonSimpleSpec{
			WingedHorseName: "pegasus of " + name, Image: "bellerophon-io/bellerophon-server:v1", Replicas: new(replicas),
		},
	}
}

// create creates an object and returns it with the API server's defaults.
func (t *trial) create(ctx context.Context, hero *v1.BellerophonSimple) (*v1.BellerophonSimple, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(hero)
	if err != nil {
		return nil, err
	}
	made, err := t.any.Resource(sheroes).Namespace(hero.Namespace).Create(ctx, &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", hero.Name, err)
	}
	return typed(made)
}

// createAll creates objects with the given numbers of replicas, named pegasus-0 and so on.
func (t *trial) createAll(ctx context.Context, replicas ...int32) ([]*v1.BellerophonSimple, error) {
	heroes := make([]*v1.BellerophonSimple, len(replicas))
	for i := range heroes {
		var err error
		if heroes[i], err = t.create(ctx, t.hero(fmt.Sprintf("pegasus-%d", i), replicas[i])); err != nil {
			return nil, err
		}
	}
	return heroes, nil
}

// finished creates an object and waits until it has its children and its finished status.
func (t *trial) finished(ctx context.Context, name string, replicas int32) (*v1.BellerophonSimple, error) {
	hero, err := t.create(ctx, t.hero(name, replicas))
	if err != nil {
		return nil, err
	}
	return t.awaitAll(ctx, hero)
}

// settled calls finished, and then waits until the process writes nothing more.
func (t *trial) settled(ctx context.Context, name string, replicas int32) (*v1.BellerophonSimple, error) {
	hero, err := t.finished(ctx, name, replicas)
	if err != nil {
		return nil, err
	}
	return hero, t.settle(ctx)
}

// patch changes an object as a user would.
func (t *trial) patch(ctx context.Context, resource schema.GroupVersionResource, name, patch string) (*unstructured.Unstructured, error) {
	patched, err := t.any.Resource(resource).Namespace(t.namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("change %s %s: %w", resource.Resource, name, err)
	}
	return patched, nil
}

// change changes the spec of an object.
func (t *trial) change(ctx context.Context, name, spec string) (*v1.BellerophonSimple, error) {
	changed, err := t.patch(ctx, sheroes, name, `{"spec":`+spec+`}`)
	if err != nil {
		return nil, err
	}
	return typed(changed)
}

func (t *trial) get(ctx context.Context, resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	object, err := t.any.Resource(resource).Namespace(t.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", resource.Resource, name, err)
	}
	return object, nil
}

func (t *trial) remove(ctx context.Context, resource schema.GroupVersionResource, name string, options metav1.DeleteOptions) error {
	if err := t.any.Resource(resource).Namespace(t.namespace).Delete(ctx, name, options); err != nil {
		return fmt.Errorf("delete %s %s: %w", resource.Resource, name, err)
	}
	return nil
}

func typed(object *unstructured.Unstructured) (*v1.BellerophonSimple, error) {
	hero := &v1.BellerophonSimple{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, hero); err != nil {
		return nil, fmt.Errorf("read %s: %w", object.GetName(), err)
	}
	return hero, nil
}

// writes returns the writes of the process in the trial's namespace since a mark, without Events.
func (t *trial) writes(mark int) []call { return t.proxy.since(mark, t.isWrite) }

// accepted returns the writes that the API server did not refuse, and the number of refused
// writes. A refused write changes nothing, but it still costs something.
func (t *trial) accepted(mark int) (writes []call, refused int) {
	all := t.writes(mark)
	writes = slices.DeleteFunc(slices.Clone(all), func(c call) bool { return c.code >= 400 })
	return writes, len(all) - len(writes)
}

func (t *trial) isWrite(c *call) bool {
	return c.isWrite() && !c.isEvent() && c.Namespace == t.namespace
}

// settle waits until the process has written nothing in the namespace for [Options.Quiet].
func (t *trial) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.options.Patience)
	defer cancel()
	return t.proxy.quiet(ctx, t.options.Quiet, t.isWrite)
}

// unchanged returns an error if the process writes something from a mark on, within
// [Options.Quiet].
func (t *trial) unchanged(ctx context.Context, mark int) error {
	ctx, cancel := context.WithTimeout(ctx, t.options.Quiet)
	defer cancel()
	found, err := t.proxy.await(ctx, mark, t.isWrite, some)
	if err == nil {
		return fmt.Errorf("nothing changed, but the process wrote: %v", &found[0])
	}
	return nil
}

// counts returns the number of writes to each resource.
func counts(calls []call) map[string]int {
	counted := map[string]int{}
	for i := range calls {
		counted[calls[i].what()]++
	}
	return counted
}
