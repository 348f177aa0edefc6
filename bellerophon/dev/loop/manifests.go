package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/project"
	"github.com/bellerophon-io/bellerophon/controller"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// BindingsAnnotation names the ServiceBindings that an application waits for in addition to the bindings in its devfile. Their
// names are separated by commas. It is on the Deployment, or among the annotations of a container in the devfile.
const BindingsAnnotation = "dev.bellerophon.io/service-bindings"

// bindingKind is the kind of a service binding (https://servicebinding.io), and of the older operator of bindings.
const bindingKind = "ServiceBinding"

// Manifests applies and reads the objects that a devfile names. They may be of any kind.
type Manifests interface {
	// Apply applies an object for the application of owner, unless it is as the last Apply has left it. It returns the
	// object as it is. Later changes of the object make requests.
	Apply(ctx context.Context, owner *corev1.ConfigMap, object *unstructured.Unstructured) (*unstructured.Unstructured, error)

	// Binding returns a ServiceBinding of the application's namespace, or nil if there is none. Later changes of
	// ServiceBindings make requests.
	Binding(ctx context.Context, name string) (*unstructured.Unstructured, error)

	// Delete deletes an object that was applied for the application. An object without the application's label stays.
	Delete(ctx context.Context, object contract.Object) error
}

// named is what the devfile's objects are now.
type named struct {
	objects []contract.Object
	waits   string // the binding that is not ready, and why
}

// applyManifests applies the objects that the devfile wants from the start, and deletes the ones that it no longer
// names. It keeps going after an error.
func (l *Loop) applyManifests(ctx context.Context, owner *corev1.ConfigMap, plan *project.Plan) (named, error) {
	made := named{objects: l.applied(ctx)}
	for _, object := range l.commanded.all() {
		if !slices.Contains(made.objects, object) {
			made.objects = append(made.objects, object)
		}
	}
	if l.options.Manifests == nil {
		if len(plan.Manifests) > 0 {
			return made, errors.New("apply the devfile's objects: this program applies none")
		}
		return made, nil
	}
	var failures []error
	var wanted []contract.Object
	for _, manifest := range plan.Manifests {
		objects, err := objectsOf(manifest)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		for _, object := range objects {
			if !manifest.Default {
				if is := objectOf(object, l.options.Namespace); slices.Contains(made.objects, is) {
					wanted = append(wanted, is) // A command has applied it.
				}
				continue
			}
			applied, err := l.options.Manifests.Apply(ctx, owner, object)
			if err != nil {
				failures = append(failures, fmt.Errorf("apply the component %s: %w", manifest.Component, err))
				continue
			}
			wanted = append(wanted, objectOf(applied, ""))
			if applied.GetKind() == bindingKind && made.waits == "" {
				made.waits = bindingTrouble(applied.GetName(), applied)
			}
		}
	}
	for _, name := range l.bindings() {
		binding, err := l.options.Manifests.Binding(ctx, name)
		if err != nil {
			failures = append(failures, fmt.Errorf("read the service binding %s: %w", name, err))
		}
		if made.waits == "" {
			made.waits = bindingTrouble(name, binding)
		}
	}
	if len(failures) == 0 {
		for _, old := range made.objects {
			if slices.Contains(wanted, old) {
				continue
			}
			l.commanded.forget(old)
			if err := l.options.Manifests.Delete(ctx, old); err != nil {
				wanted, failures = append(wanted, old), append(failures, fmt.Errorf("delete %s %s, which the devfile no longer names: %w", old.Kind, old.Name, err))
			}
		}
		made.objects = wanted
	}
	return made, errors.Join(failures...)
}

// commanded holds the objects that commands have applied, until the Status names them.
type commanded struct {
	mu      sync.Mutex
	objects []contract.Object
}

func (c *commanded) add(object contract.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.objects, object) {
		c.objects = append(c.objects, object)
	}
}

func (c *commanded) forget(object contract.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects = slices.DeleteFunc(c.objects, func(held contract.Object) bool { return held == object })
}

func (c *commanded) all() []contract.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.objects)
}

// applied returns the objects that the Status names, also of an earlier process.
func (l *Loop) applied(ctx context.Context) []contract.Object {
	name := l.key()
	name.Name = contract.StatusName(name.Name)
	held, err := controller.Get[*corev1.ConfigMap](ctx, l.client, name)
	if err != nil {
		return nil
	}
	status, err := contract.StatusOf(held)
	if err != nil {
		return nil
	}
	return status.Objects
}

// applyComponent applies a component of the devfile, for a command that says so.
func (l *Loop) applyComponent(ctx context.Context, plan *project.Plan, component string) error {
	owner, err := controller.Get[*corev1.ConfigMap](ctx, l.client, l.key())
	if err != nil {
		return fmt.Errorf("apply the component %s: %w", component, err)
	}
	for _, manifest := range plan.Manifests {
		if manifest.Component != component {
			continue
		}
		objects, err := objectsOf(manifest)
		if err != nil {
			return err
		}
		for _, object := range objects {
			applied, err := l.options.Manifests.Apply(ctx, owner, object)
			if err != nil {
				return fmt.Errorf("apply the component %s: %w", component, err)
			}
			l.commanded.add(objectOf(applied, ""))
		}
	}
	return nil
}

// bindings returns the names of the service bindings that the Deployment names.
func (l *Loop) bindings() (names []string) {
	deployment, err := controller.Get[*appsv1.Deployment](context.Background(), l.client, l.key())
	if err != nil {
		return nil
	}
	for name := range strings.SplitSeq(deployment.Annotations[BindingsAnnotation], ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// bindingTrouble returns why a service binding is not ready, or "".
func bindingTrouble(name string, binding *unstructured.Unstructured) string {
	if binding == nil {
		return fmt.Sprintf("waiting for the service binding %s, which does not exist", name)
	}
	conditions, _, _ := unstructured.NestedSlice(binding.Object, "status", "conditions")
	for _, each := range conditions {
		condition, _ := each.(map[string]any)
		if condition["type"] != "Ready" && condition["type"] != "InjectionReady" {
			continue
		}
		if condition["status"] == "True" {
			return ""
		}
		return fmt.Sprintf("waiting for the service binding %s: %v %v", name, condition["reason"], condition["message"])
	}
	return fmt.Sprintf("waiting for the service binding %s, which has no condition Ready", name)
}

// objectsOf returns the objects in a component's manifest.
func objectsOf(manifest project.Manifest) (objects []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(manifest.Content)), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the objects of the component %s: %w", manifest.Component, err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if object.GetKind() == "" || object.GetName() == "" {
			return nil, fmt.Errorf("read the objects of the component %s: an object needs apiVersion, kind and metadata.name", manifest.Component)
		}
		objects = append(objects, object)
	}
}

// objectOf names an object. namespace is for an object without one.
func objectOf(object *unstructured.Unstructured, namespace string) contract.Object {
	if object.GetNamespace() != "" {
		namespace = object.GetNamespace()
	}
	return contract.Object{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: namespace, Name: object.GetName()}
}
