package compat_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// use is one use of a client. It returns what a caller can see.
type use func(ctx context.Context, c client.Client) (string, error)

// seen returns what a caller sees of an object, without what differs from one run to the next.
func seen(object client.Object) string {
	var content any
	switch held := object.(type) {
	case *corev1.ConfigMap:
		content = held.Data
	case *unstructured.Unstructured:
		content = held.Object["data"]
	case *appsv1.Deployment:
		content = fmt.Sprint(*held.Spec.Replicas, held.Status.Replicas, held.Status.ObservedGeneration)
	}
	return fmt.Sprintf("%T %v %s %v %v %v uid:%t version:%t generation:%d", object, object.GetObjectKind().GroupVersionKind(), object.GetName(),
		object.GetLabels(), object.GetAnnotations(), content, object.GetUID() != "", object.GetResourceVersion() != "", object.GetGeneration())
}

// names returns the names in a list.
func names(list client.ObjectList) string {
	var all []string
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if name := item.(client.Object).GetName(); name != "kube-root-ca.crt" {
			all = append(all, name)
		}
		return nil
	})
	slices.Sort(all)
	return strings.Join(all, " ")
}

// outcome returns what a caller sees of a use.
func outcome(result string, err error) string {
	var status *apierrors.StatusError
	switch {
	case err == nil:
		return result
	case errors.As(err, &status) && reflect.TypeOf(err) == reflect.TypeOf(status): // Some programs look at the type.
		of := status.Status()
		details := ""
		if of.Details != nil {
			details = of.Details.Group + "/" + of.Details.Kind + "/" + of.Details.Name
		}
		return fmt.Sprintf("%s %s (%d) of %s", result, of.Reason, of.Code, details)
	}
	return fmt.Sprintf("%s fails", result)
}

// TestTheClientDoesAsControllerRuntimesDoes takes each use with both clients, and compares what a caller
// sees.
func TestTheClientDoesAsControllerRuntimesDoes(t *testing.T) {
	d := newDesk(t)
	for name, use := range d.uses() {
		t.Run(name, func(t *testing.T) {
			results := map[client.Client]string{}
			for _, c := range []client.Client{d.theirs, d.ours} {
				results[c] = outcome(use(t.Context(), c))
				d.must(d.ours.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(d.namespace), client.MatchingFieldsSelector{
					Selector: fields.OneTermNotEqualSelector("metadata.name", "kube-root-ca.crt")}))
			}
			t.Log(results[d.ours])
			if results[d.ours] != results[d.theirs] {
				t.Errorf("it returns\n%s\nwant, as with controller-runtime,\n%s", results[d.ours], results[d.theirs])
			}
		})
	}
}

// as returns a new ConfigMap in a form that the cache does not keep.
func (d *desk) as(object client.Object, name string) client.Object {
	object.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	object.SetNamespace(d.namespace)
	object.SetName(name)
	return object
}

// deployment returns a Deployment, which is a kind that the manager does not declare.
func (d *desk) deployment() *appsv1.Deployment {
	labelled := map[string]string{"app": "x"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "x"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labelled},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labelled}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}},
			},
		},
	}
}

// changed creates the ConfigMap x, changes it as another client, and returns the two states.
func (d *desk) changed(ctx context.Context, c client.Client) (before, after *corev1.ConfigMap, err error) {
	before = d.config("x", "red")
	if err := c.Create(ctx, before); err != nil {
		return nil, nil, err
	}
	after = before.DeepCopy()
	after.Labels = map[string]string{"by": "another"}
	return before, after, d.theirs.Update(ctx, after)
}

// managers returns the field managers of the ConfigMap x, as the API server has them.
func (d *desk) managers(ctx context.Context) string {
	var all []string
	held := &corev1.ConfigMap{}
	d.must(d.theirs.Get(ctx, d.name("x"), held))
	for _, entry := range held.ManagedFields {
		all = append(all, entry.Manager)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// uses are the uses whose effects are compared.
func (d *desk) uses() map[string]use {
	all := map[string]use{}
	for _, group := range []map[string]use{d.reads(), d.writes(), d.patches(), d.deletions(), d.forms(), d.subresources()} {
		for name, use := range group {
			all[name] = use
		}
	}
	return all
}

// three creates three ConfigMaps.
func (d *desk) three(ctx context.Context, c client.Client) error {
	return errors.Join(
		c.Create(ctx, d.config("a", "red", "app", "web", "tier", "front")),
		c.Create(ctx, d.config("b", "blue", "app", "web")),
		c.Create(ctx, d.config("c", "red", "app", "db")))
}

func (d *desk) reads() map[string]use {
	listing := func(options ...client.ListOption) use {
		return func(ctx context.Context, c client.Client) (string, error) {
			if err := d.three(ctx, c); err != nil {
				return "", err
			}
			list := &corev1.ConfigMapList{}
			err := c.List(ctx, list, append([]client.ListOption{client.InNamespace(d.namespace)}, options...)...)
			return names(list), err
		}
	}
	required, err := labels.Parse("app in (web, db), tier notin (front)")
	d.must(err)
	return map[string]use{
		"get of a missing object": func(ctx context.Context, c client.Client) (string, error) {
			return "", c.Get(ctx, d.name("none"), &corev1.ConfigMap{})
		},
		"get of a missing object of an undeclared kind": func(ctx context.Context, c client.Client) (string, error) {
			return "", c.Get(ctx, d.name("none"), &appsv1.Deployment{})
		},
		"get of a type outside of the scheme": func(ctx context.Context, c client.Client) (string, error) {
			return "", c.Get(ctx, d.name("none"), &struct{ corev1.ConfigMap }{})
		},
		"get after a creation": func(ctx context.Context, c client.Client) (string, error) {
			if err := d.three(ctx, c); err != nil {
				return "", err
			}
			got := d.config("other", "green", "left", "over")
			err := c.Get(ctx, d.name("a"), got)
			got.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap")) // Only reads of a cache set it.
			return seen(got), err
		},
		"list":                        listing(),
		"list by labels":              listing(client.MatchingLabels{"app": "web"}),
		"list by having labels":       listing(client.HasLabels{"tier"}),
		"list by a selector":          listing(client.MatchingLabelsSelector{Selector: required}),
		"list by name":                listing(client.MatchingFields{"metadata.name": "b"}),
		"list by another name":        listing(client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("metadata.name", "b")}),
		"list by a name and a label":  listing(client.MatchingFields{"metadata.name": "b"}, client.MatchingLabels{"app": "db"}),
		"list of another namespace":   listing(client.InNamespace("none")),
		"list of a limit":             listing(client.MatchingLabels{"app": "web"}, client.Limit(1)),
		"list from a token of no use": listing(client.Continue("x")),
		"list in pages": func(ctx context.Context, c client.Client) (string, error) {
			if err := d.three(ctx, c); err != nil {
				return "", err
			}
			var pages []string
			list := &corev1.ConfigMapList{}
			for {
				if err := c.List(ctx, list, client.InNamespace(d.namespace), client.HasLabels{"app"}, client.Limit(2), client.Continue(list.Continue)); err != nil {
					return "", err
				}
				if pages = append(pages, names(list)); list.Continue == "" {
					return strings.Join(pages, ", "), nil
				}
			}
		},
	}
}

func (d *desk) writes() map[string]use {
	return map[string]use{
		"create": func(ctx context.Context, c client.Client) (string, error) {
			made := d.config("x", "red")
			err := c.Create(ctx, made)
			return seen(made), err
		},
		"create with a generated name": func(ctx context.Context, c client.Client) (string, error) {
			made := d.config("", "red")
			made.GenerateName = "some-"
			err := c.Create(ctx, made)
			return fmt.Sprint(len(made.Name)), err
		},
		"create twice": func(ctx context.Context, c client.Client) (string, error) {
			return "", errors.Join(c.Create(ctx, d.config("x", "red")), nil, c.Create(ctx, d.config("x", "red")))
		},
		"create what exists": func(ctx context.Context, c client.Client) (string, error) {
			_ = c.Create(ctx, d.config("x", "red"))
			return "", c.Create(ctx, d.config("x", "red"))
		},
		"create with a wrong name": func(ctx context.Context, c client.Client) (string, error) {
			return "", c.Create(ctx, d.config("X", "red"))
		},
		"create in a dry run": func(ctx context.Context, c client.Client) (string, error) {
			made := d.config("x", "red")
			err := c.Create(ctx, made, client.DryRunAll)
			return seen(made), errors.Join(err, client.IgnoreNotFound(c.Get(ctx, d.name("x"), &corev1.ConfigMap{})))
		},
		"create as a field owner": func(ctx context.Context, c client.Client) (string, error) {
			made := d.config("x", "red")
			err := c.Create(ctx, made, client.FieldOwner("someone"))
			return d.managers(ctx), err
		},
		"create through a client with a field owner": func(ctx context.Context, c client.Client) (string, error) {
			made := d.config("x", "red")
			err := client.WithFieldOwner(c, "someone").Create(ctx, made)
			return d.managers(ctx), err
		},
		"update": func(ctx context.Context, c client.Client) (string, error) {
			made := d.config("x", "red")
			err := c.Create(ctx, made)
			made.Data["color"] = "blue"
			err = errors.Join(err, c.Update(ctx, made))
			return seen(made), err
		},
		"update of a changed object": func(ctx context.Context, c client.Client) (string, error) {
			before, _, err := d.changed(ctx, c)
			if err != nil {
				return "", err
			}
			return seen(before), c.Update(ctx, before)
		},
		"update of a missing object": func(ctx context.Context, c client.Client) (string, error) {
			return "", c.Update(ctx, d.config("none", "red"))
		},
		"update through a client in a dry run": func(ctx context.Context, c client.Client) (string, error) {
			made := d.config("x", "red")
			err := c.Create(ctx, made)
			made.Data["color"] = "blue"
			err = errors.Join(err, client.NewDryRunClient(c).Update(ctx, made))
			held := &corev1.ConfigMap{}
			err = errors.Join(err, c.Get(ctx, d.name("x"), held))
			return made.Data["color"] + held.Data["color"], err
		},
		"create or update": func(ctx context.Context, c client.Client) (string, error) {
			var all []string
			for _, color := range []string{"red", "red", "blue"} {
				made := d.config("x", "")
				how, err := controllerutil.CreateOrUpdate(ctx, c, made, func() error { made.Data = map[string]string{"color": color}; return nil })
				made.SetGroupVersionKind(schema.GroupVersionKind{}) // Only reads of a cache set it.
				if all = append(all, string(how), seen(made)); err != nil {
					return "", err
				}
			}
			return strings.Join(all, ", "), nil
		},
	}
}

func (d *desk) patches() map[string]use {
	from := func(made func(before client.Object) client.Patch, options ...client.PatchOption) use {
		return func(ctx context.Context, c client.Client) (string, error) {
			before, _, err := d.changed(ctx, c)
			if err != nil {
				return "", err
			}
			changed := before.DeepCopy()
			changed.Data["color"] = "blue"
			err = c.Patch(ctx, changed, made(before), options...)
			return seen(changed), err
		}
	}
	lock := client.MergeFromWithOptimisticLock{}
	return map[string]use{
		"merge patch": from(client.MergeFrom),
		"merge patch with a lock": from(func(before client.Object) client.Patch {
			return client.MergeFromWithOptions(before, lock)
		}),
		"merge patch in a dry run": from(client.MergeFrom, client.DryRunAll),
		"merge patch as a field owner": func(ctx context.Context, c client.Client) (string, error) {
			made := d.config("x", "red")
			err := c.Create(ctx, made)
			err = errors.Join(err, c.Patch(ctx, made, client.RawPatch(types.MergePatchType, []byte(`{"data":{"size":"1"}}`)), client.FieldOwner("someone")))
			return fmt.Sprint(strings.Contains(d.managers(ctx), "someone")), err
		},
		"strategic patch": from(func(before client.Object) client.Patch { return client.StrategicMergeFrom(before) }),
		"strategic patch with a lock": from(func(before client.Object) client.Patch {
			return client.StrategicMergeFrom(before, lock)
		}),
		"JSON patch": from(func(client.Object) client.Patch {
			return client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/data/color","value":"green"}]`))
		}),
		"JSON patch whose test fails": from(func(client.Object) client.Patch {
			return client.RawPatch(types.JSONPatchType, []byte(`[{"op":"test","path":"/data/color","value":"green"}]`))
		}),
		"patch that changes nothing": func(ctx context.Context, c client.Client) (string, error) {
			before, after, err := d.changed(ctx, c)
			if err != nil {
				return "", err
			}
			same := before.DeepCopy()
			err = c.Patch(ctx, same, client.MergeFrom(before))
			return fmt.Sprint(seen(same), same.ResourceVersion == after.ResourceVersion), err
		},
		"patch of a missing object": func(ctx context.Context, c client.Client) (string, error) {
			return "", c.Patch(ctx, d.config("none", ""), client.RawPatch(types.MergePatchType, []byte(`{}`)))
		},
		"apply": func(ctx context.Context, c client.Client) (string, error) {
			first := applycorev1.ConfigMap("x", d.namespace).WithData(map[string]string{"color": "red", "size": "1"})
			err := c.Apply(ctx, first, client.FieldOwner("one"))
			second := applycorev1.ConfigMap("x", d.namespace).WithData(map[string]string{"color": "red"})
			err = errors.Join(err, c.Apply(ctx, second, client.FieldOwner("one")))
			return fmt.Sprint(*first.Kind, first.Data, first.UID != nil, second.Data, *second.ResourceVersion != ""), err
		},
		"apply against another owner": func(ctx context.Context, c client.Client) (string, error) {
			configuration := func(color string) *applycorev1.ConfigMapApplyConfiguration {
				return applycorev1.ConfigMap("x", d.namespace).WithData(map[string]string{"color": color})
			}
			err := c.Apply(ctx, configuration("red"), client.FieldOwner("one"))
			if err != nil {
				return "", err
			}
			forced := configuration("blue")
			refused := c.Apply(ctx, forced, client.FieldOwner("two"))
			err = c.Apply(ctx, forced, client.FieldOwner("two"), client.ForceOwnership)
			return outcome("", refused) + fmt.Sprint(forced.Data), err
		},
		"apply of a map": func(ctx context.Context, c client.Client) (string, error) {
			made := d.as(&unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"color": "red"}}}, "x").(*unstructured.Unstructured)
			err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(made), client.FieldOwner("one"))
			return seen(made), err
		},
		"apply of an undeclared kind": func(ctx context.Context, c client.Client) (string, error) {
			made := applycorev1.Secret("x", d.namespace).WithData(map[string][]byte{"a": []byte("b")})
			err := c.Apply(ctx, made, client.FieldOwner("one"))
			return fmt.Sprint(len(made.Data), made.UID != nil), errors.Join(err, c.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "x"}}))
		},
		"apply by a patch": func(ctx context.Context, c client.Client) (string, error) {
			made := d.config("x", "red")
			made.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			err := c.Patch(ctx, made, client.Apply, client.FieldOwner("one"), client.ForceOwnership) //nolint:staticcheck // Programs still use it.
			return seen(made), err
		},
		"apply of a map by a patch": func(ctx context.Context, c client.Client) (string, error) {
			made := d.as(&unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"color": "red"}}}, "x").(*unstructured.Unstructured)
			err := c.Patch(ctx, made, client.Apply, client.FieldOwner("one"), client.ForceOwnership) //nolint:staticcheck // Programs still use it.
			made.SetLabels(map[string]string{"changed": "by the caller"})
			return seen(made), err
		},
	}
}

func (d *desk) deletions() map[string]use {
	return map[string]use{
		"delete of a missing object": func(ctx context.Context, c client.Client) (string, error) {
			return "", c.Delete(ctx, d.config("none", ""))
		},
		"delete of a changed object": func(ctx context.Context, c client.Client) (string, error) {
			before, _, err := d.changed(ctx, c)
			if err != nil {
				return "", err
			}
			return "", errors.Join(c.Delete(ctx, before), client.IgnoreNotFound(c.Get(ctx, d.name("x"), &corev1.ConfigMap{})))
		},
		"delete on condition of another uid": func(ctx context.Context, c client.Client) (string, error) {
			before, _, err := d.changed(ctx, c)
			if err != nil {
				return "", err
			}
			return "", c.Delete(ctx, before, client.Preconditions{UID: new(types.UID("other"))})
		},
		"delete on condition of an old version": func(ctx context.Context, c client.Client) (string, error) {
			before, _, err := d.changed(ctx, c)
			if err != nil {
				return "", err
			}
			return "", c.Delete(ctx, before, client.Preconditions{UID: &before.UID, ResourceVersion: &before.ResourceVersion})
		},
		"delete in a dry run": func(ctx context.Context, c client.Client) (string, error) {
			made := d.config("x", "red")
			err := errors.Join(c.Create(ctx, made), c.Delete(ctx, made, client.DryRunAll))
			return "", errors.Join(err, c.Get(ctx, d.name("x"), made))
		},
		"delete of an object with a finalizer": func(ctx context.Context, c client.Client) (string, error) {
			made := d.config("x", "red")
			made.Finalizers = []string{"example.org/hold"}
			err := errors.Join(c.Create(ctx, made), c.Delete(ctx, made))
			err = errors.Join(err, c.Get(ctx, d.name("x"), made))
			leaving := made.DeletionTimestamp != nil
			made.Finalizers = nil
			return fmt.Sprint(leaving), errors.Join(err, c.Update(ctx, made))
		},
		"delete all of some": func(ctx context.Context, c client.Client) (string, error) {
			err := d.three(ctx, c)
			err = errors.Join(err, c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(d.namespace), client.MatchingLabels{"app": "web"},
				client.PropagationPolicy(metav1.DeletePropagationBackground)))
			list := &corev1.ConfigMapList{}
			err = errors.Join(err, c.List(ctx, list, client.InNamespace(d.namespace), client.HasLabels{"app"}))
			return names(list), err
		},
	}
}

func (d *desk) forms() map[string]use {
	return map[string]use{
		"maps": func(ctx context.Context, c client.Client) (string, error) {
			made := d.as(&unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"color": "red"}}}, "x").(*unstructured.Unstructured)
			err := c.Create(ctx, made)
			before := made.DeepCopy()
			made.SetLabels(map[string]string{"a": "b"})
			err = errors.Join(err, c.Patch(ctx, made, client.MergeFrom(before)))
			got := d.as(&unstructured.Unstructured{}, "")
			err = errors.Join(err, c.Get(ctx, d.name("x"), got))
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
			err = errors.Join(err, c.List(ctx, list, client.InNamespace(d.namespace), client.MatchingLabels{"a": "b"}))
			return seen(made) + seen(got) + names(list), errors.Join(err, c.Delete(ctx, made))
		},
		"metadata": func(ctx context.Context, c client.Client) (string, error) {
			err := c.Create(ctx, d.config("x", "red"))
			got := d.as(&metav1.PartialObjectMetadata{}, "")
			err = errors.Join(err, c.Get(ctx, d.name("x"), got))
			before := got.DeepCopyObject().(client.Object)
			got.SetLabels(map[string]string{"a": "b"})
			err = errors.Join(err, c.Patch(ctx, got, client.MergeFrom(before)))
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
			err = errors.Join(err, c.List(ctx, list, client.InNamespace(d.namespace), client.MatchingLabels{"a": "b"}))
			return seen(got) + names(list), errors.Join(err, c.Delete(ctx, got))
		},
		"creation of metadata": func(ctx context.Context, c client.Client) (string, error) {
			return "", c.Create(ctx, d.as(&metav1.PartialObjectMetadata{}, "x"))
		},
		"kinds": func(_ context.Context, c client.Client) (string, error) {
			kind, err := c.GroupVersionKindFor(&corev1.ConfigMap{})
			namespaced, err2 := c.IsObjectNamespaced(&corev1.ConfigMap{})
			whole, err3 := c.IsObjectNamespaced(&corev1.Node{})
			mapping, err4 := c.RESTMapper().RESTMapping(kind.GroupKind())
			return fmt.Sprint(kind, namespaced, whole, mapping.Resource, c.Scheme().Recognizes(kind)), errors.Join(err, err2, err3, err4)
		},
	}
}

func (d *desk) subresources() map[string]use {
	return map[string]use{
		"status and scale": func(ctx context.Context, c client.Client) (string, error) {
			made := d.deployment()
			err := c.Create(ctx, made)
			scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 0}}
			err = errors.Join(err, c.SubResource("scale").Update(ctx, made, client.WithSubResourceBody(scale)))
			got := &autoscalingv1.Scale{}
			err = errors.Join(err, c.SubResource("scale").Get(ctx, made, got))
			before := made.DeepCopy()
			made.Annotations = map[string]string{"not": "sent"}
			err = errors.Join(err, c.Status().Patch(ctx, made, client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[]}}`))))
			return fmt.Sprint(got.Spec.Replicas, got.Name, before.Name), errors.Join(err, c.Delete(ctx, made))
		},
		"status of a missing object": func(ctx context.Context, c client.Client) (string, error) {
			missing := d.deployment()
			missing.ResourceVersion = "1"
			return "", c.Status().Update(ctx, missing)
		},
		"status of a kind without one": func(ctx context.Context, c client.Client) (string, error) {
			made := d.config("x", "red")
			return "", errors.Join(c.Create(ctx, made), c.Status().Update(ctx, made))
		},
		"token": func(ctx context.Context, c client.Client) (string, error) {
			return "", c.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "none"}}, &corev1.ServiceAccount{})
		},
	}
}
