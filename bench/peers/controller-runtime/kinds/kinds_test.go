package main

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestEachKindHasAGoTypeOfItsOwn(t *testing.T) {
	types, seen := runtime.NewScheme(), map[reflect.Type]bool{}
	for i, kind := range kinds() {
		kind.register(types, i)
		object, err := types.New(groupVersion.WithKind(fmt.Sprintf("Horse%02d", i)))
		if err != nil {
			t.Fatal(err)
		}
		seen[reflect.TypeOf(object)] = true
	}
	if len(seen) != 50 {
		t.Errorf("%d kinds have a type of their own, want 50", len(seen))
	}
}

func TestTheCacheKeepsWhatAReconcileReads(t *testing.T) {
	meta := metav1.ObjectMeta{
		Name: "a", Namespace: "n", UID: "u", ResourceVersion: "3", Generation: 2, Labels: map[string]string{"l": "l"},
		OwnerReferences: []metav1.OwnerReference{{Name: "o"}}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}
	kept := metav1.ObjectMeta{Name: "a", Namespace: "n", UID: "u", ResourceVersion: "3", Generation: 2, OwnerReferences: []metav1.OwnerReference{{Name: "o"}}}
	config, err := keepConfig(&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{keyColour: "white", "other": "x"}})
	if want := (&corev1.ConfigMap{ObjectMeta: kept, Data: map[string]string{keyColour: "white"}}); err != nil || !reflect.DeepEqual(config, want) {
		t.Errorf("of a ConfigMap it keeps %+v: %v, want %+v", config, err, want)
	}
	options := cache.Options{ByObject: map[client.Object]cache.ByObject{}}
	kinds()[7].keep(&options)
	for of, selected := range options.ByObject {
		whole := of.(*object[pair[d0, d7]])
		whole.ObjectMeta, whole.Spec.Colour, whole.Status.ObservedGeneration = meta, "white", 2
		held, err := selected.Transform(whole)
		if want := (&object[pair[d0, d7]]{ObjectMeta: kept, Spec: spec{"white"}, Status: status{2}}); err != nil || !reflect.DeepEqual(held, want) {
			t.Errorf("of an object it keeps %+v: %v, want %+v", held, err, want)
		}
	}
	if len(options.ByObject) != 1 {
		t.Errorf("%d kinds are kept in part, want one", len(options.ByObject))
	}
}
