package manifests_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAnObjectIsSentOnceAndBelongsToTheApplication(t *testing.T) {
	w := newWorld(t)
	for range 10 {
		w.apply(settings("one"))
	}
	if sent := w.patches.Load(); sent != 1 {
		t.Errorf("10 times the same object were sent %d times, want once", sent)
	}
	made := w.get(configMaps, "settings")
	if value(made) != "one" || made.GetLabels()[contract.ApplicationLabel] != application {
		t.Errorf("the object is %v", made)
	}
	if owners := made.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != w.owner.UID {
		t.Errorf("the object has the owners %v, want the Specs", owners)
	}
	select {
	case <-w.changed: // The watch reports it.
	case <-w.ctx.Done():
		t.Fatal("the new object is not reported within a minute")
	}
	w.apply(settings("one"))
	w.apply(settings("two"))
	if sent := w.patches.Load(); sent != 2 || value(w.get(configMaps, "settings")) != "two" {
		t.Errorf("an edit of the manifest was sent with %d requests, and the object is %v; want 2 requests in all", sent, w.get(configMaps, "settings"))
	}
}

func TestAnObjectThatSomebodyEditsOrDeletesIsRepaired(t *testing.T) {
	w := newWorld(t)
	wanted := func() *unstructured.Unstructured { return settings("one") }
	for name, change := range map[string]func(){
		"an edit": func() {
			edited := w.get(configMaps, "settings")
			must(t, unstructured.SetNestedField(edited.Object, "theirs", "data", "key"))
			w.update(configMaps, edited)
		},
		"a deletion": func() {
			must(t, w.others.Resource(configMaps).Namespace(w.namespace).Delete(w.ctx, "settings", metav1.DeleteOptions{}))
		},
		"no labels": func() {
			edited := w.get(configMaps, "settings")
			edited.SetLabels(nil)
			w.update(configMaps, edited)
		},
	} {
		w.settled(wanted)
		change()
		w.until("the repair of "+name, func() bool {
			w.apply(wanted())
			made := w.get(configMaps, "settings")
			return value(made) == "one" && made.GetLabels()[contract.ApplicationLabel] == application
		})
	}
}

// A Deployment has a generation. Its status changes all the time, and is no drift.
func TestAStatusIsNoDriftAndAnotherSpecIs(t *testing.T) {
	w := newWorld(t)
	wanted := func() *unstructured.Unstructured {
		labels := map[string]any{"app": "web"}
		return object("apps/v1", "Deployment", "web", map[string]any{"spec": map[string]any{
			"replicas": int64(1), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "web.example/web:1"}}},
			},
		}})
	}
	w.until("the Deployment is ready", func() bool {
		ready, _, err := unstructured.NestedInt64(w.apply(wanted()).Object, "status", "readyReplicas")
		return err == nil && ready == 1
	})
	if sent := w.patches.Load(); sent != 1 {
		t.Errorf("the Deployment was sent %d times until it was ready, want once", sent)
	}
	edited := w.get(deployments, "web")
	must(t, unstructured.SetNestedField(edited.Object, int64(3), "spec", "replicas"))
	w.update(deployments, edited)
	w.until("one replica again", func() bool {
		w.apply(wanted())
		replicas, _, _ := unstructured.NestedInt64(w.get(deployments, "web").Object, "spec", "replicas")
		return replicas == 1
	})
}

func TestAnObjectWithoutANamespaceHasNoOwner(t *testing.T) {
	w := newWorld(t)
	name := w.namespace + "-reader"
	applied := w.apply(object("rbac.authorization.k8s.io/v1", "ClusterRole", name, map[string]any{"rules": []any{}}))
	t.Cleanup(func() {
		_ = w.others.Resource(clusterRoles).Delete(context.WithoutCancel(w.ctx), name, metav1.DeleteOptions{}) // It may be gone.
	})
	if len(applied.GetOwnerReferences()) != 0 || applied.GetNamespace() != "" {
		t.Errorf("the ClusterRole has the owners %v and the namespace %q, want none", applied.GetOwnerReferences(), applied.GetNamespace())
	}
	must(t, w.Delete(w.ctx, contract.Object{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: name}))
	if _, err := w.others.Resource(clusterRoles).Get(w.ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ClusterRole is still there: %v", err)
	}
}

func TestADeletionLeavesAnObjectOfSomebodyElse(t *testing.T) {
	w := newWorld(t)
	named := contract.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: w.namespace, Name: "settings"}
	must(t, w.Delete(w.ctx, named)) // There is none.

	w.apply(settings("one"))
	must(t, w.Delete(w.ctx, named))
	if found := w.get(configMaps, "settings"); found != nil {
		t.Errorf("the object is still there: %v", found)
	}
	w.apply(settings("one"))
	if value(w.get(configMaps, "settings")) != "one" {
		t.Error("an Apply after a Delete has not made the object again")
	}

	for name, labels := range map[string]map[string]string{"no labels": nil, "another application": {contract.ApplicationLabel: "other"}} {
		theirs := w.get(configMaps, "settings")
		theirs.SetLabels(labels)
		w.update(configMaps, theirs)
		must(t, w.Delete(w.ctx, named))
		if w.get(configMaps, "settings") == nil {
			t.Fatalf("an object with %s is deleted", name)
		}
	}
}

func TestAKindThatIsNotServedIsAnErrorWithAWayOut(t *testing.T) {
	w := newWorld(t)
	unknown := object("absent.example.com/v1", "Database", "db", map[string]any{})
	_, err := w.Apply(w.ctx, w.owner, unknown)
	if err == nil || !strings.Contains(err.Error(), "absent.example.com/v1, Kind=Database") || !strings.Contains(err.Error(), "install its definition, or remove the component from the devfile") {
		t.Errorf("the error is %v, want the kind and a way out", err)
	}
	must(t, w.Delete(w.ctx, contract.Object{APIVersion: "absent.example.com/v1", Kind: "Database", Name: "db"})) // It cannot exist.
	if err := w.Delete(w.ctx, contract.Object{APIVersion: "a/b/c", Kind: "Database", Name: "db"}); err == nil {
		t.Error("a version that is no version is no error")
	}

	w.install("absent.example.com", "v1", "Database")
	w.until("the kind is served", func() bool {
		_, err := w.Apply(w.ctx, w.owner, unknown)
		w.again(err)
		return err == nil
	})
}

func TestAnObjectThatTheServerRefusesIsAnError(t *testing.T) {
	w := newWorld(t)
	if _, err := w.Apply(w.ctx, w.owner, object("v1", "ConfigMap", "No Name", map[string]any{})); !apierrors.IsInvalid(err) {
		t.Errorf("the error is %v, want an invalid object", err)
	}
}

func TestABindingIsFoundAndFollowed(t *testing.T) {
	w := newWorld(t)
	if found, err := w.Binding(w.ctx, "database"); found != nil || err == nil || !strings.Contains(err.Error(), "install its definition") {
		t.Fatalf("a cluster without bindings has the binding %v, %v; want an error with a way out", found, err)
	}
	w.install("servicebinding.io", "v1beta1", "ServiceBinding")
	resource := schema.GroupVersionResource{Group: "servicebinding.io", Version: "v1beta1", Resource: "servicebindings"}
	bindings := w.others.Resource(resource).Namespace(w.namespace)

	w.until("the kind is served", func() bool {
		found, err := w.Binding(w.ctx, "database")
		w.again(err)
		if found != nil {
			t.Fatalf("a namespace without bindings has the binding %v", found)
		}
		return err == nil
	})
	// Another client makes the binding. It has no label of the application.
	made, err := bindings.Create(w.ctx, object("servicebinding.io/v1beta1", "ServiceBinding", "database", map[string]any{}), metav1.CreateOptions{})
	must(t, err)
	binding := func() *unstructured.Unstructured {
		found, err := w.Binding(w.ctx, "database")
		must(t, err)
		return found
	}
	w.until("the watch has reported the binding", func() bool {
		select {
		case <-w.changed:
			return binding() != nil
		case <-w.ctx.Done():
			return false
		}
	})
	must(t, unstructured.SetNestedSlice(made.Object, []any{map[string]any{"type": "Ready", "status": "True"}}, "status", "conditions"))
	_, err = bindings.UpdateStatus(w.ctx, made, metav1.UpdateOptions{})
	must(t, err)
	w.until("the binding is ready", func() bool {
		conditions, _, _ := unstructured.NestedSlice(binding().Object, "status", "conditions")
		return fmt.Sprint(conditions) == "[map[status:True type:Ready]]"
	})
	must(t, bindings.Delete(w.ctx, "database", metav1.DeleteOptions{}))
	w.until("the binding is gone", func() bool { return binding() == nil })
}
