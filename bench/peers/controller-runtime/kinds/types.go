package main

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var groupVersion = schema.GroupVersion{Group: "kinds.simple-bellerophon.io", Version: "v1"}

// object is an object of one kind. K distinguishes the Go types of the kinds, and has no values.
type object[K any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   spec   `json:"spec"`
	Status status `json:"status,omitzero"`
}

type spec struct {
	Colour string `json:"colour,omitempty"`
}

type status struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// DeepCopy returns a deep copy.
func (o *object[K]) DeepCopy() *object[K] {
	return &object[K]{TypeMeta: o.TypeMeta, ObjectMeta: *o.ObjectMeta.DeepCopy(), Spec: o.Spec, Status: o.Status}
}

// DeepCopyObject implements runtime.Object.
func (o *object[K]) DeepCopyObject() runtime.Object { return o.DeepCopy() }

// list is a list of objects of one kind.
type list[K any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []object[K] `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *list[K]) DeepCopyObject() runtime.Object {
	copied := &list[K]{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: make([]object[K], len(l.Items))}
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopy()
	}
	return copied
}

// kind is a kind with its controller.
type kind struct {
	register func(types *runtime.Scheme, i int)
	keep     func(options *cache.Options)
	addTo    func(manager ctrl.Manager, i int) error
}

// The digits of the number of a kind. Two of them make the Go type of the kind.
type (
	d0 struct{}
	d1 struct{}
	d2 struct{}
	d3 struct{}
	d4 struct{}
	d5 struct{}
	d6 struct{}
	d7 struct{}
	d8 struct{}
	d9 struct{}

	pair[Tens, Ones any] struct{}
)

// kinds returns all kinds, in the order of their numbers.
func kinds() []kind { return slices.Concat(ten[d0](), ten[d1](), ten[d2](), ten[d3](), ten[d4]()) }

func ten[T any]() []kind {
	return []kind{
		one[pair[T, d0]](), one[pair[T, d1]](), one[pair[T, d2]](), one[pair[T, d3]](), one[pair[T, d4]](),
		one[pair[T, d5]](), one[pair[T, d6]](), one[pair[T, d7]](), one[pair[T, d8]](), one[pair[T, d9]](),
	}
}

func one[K any]() kind { return kind{register[K], keep[K], addTo[K]} }

// register adds the i-th kind to a scheme, with the Go types for K.
func register[K any](types *runtime.Scheme, i int) {
	name := kindOf(i).Kind
	types.AddKnownTypeWithName(groupVersion.WithKind(name), &object[K]{})
	types.AddKnownTypeWithName(groupVersion.WithKind(name+"List"), &list[K]{})
}

func kindOf(i int) schema.GroupVersionKind {
	return groupVersion.WithKind(fmt.Sprintf("Horse%02d", i))
}

// keep makes the cache keep only the fields of a kind's objects that a reconcile reads.
func keep[K any](options *cache.Options) {
	options.ByObject[&object[K]{}] = cache.ByObject{Transform: func(whole any) (any, error) {
		if from, ok := whole.(*object[K]); ok {
			return &object[K]{ObjectMeta: keptMeta(from), Spec: from.Spec, Status: from.Status}, nil
		}
		return whole, nil
	}}
}

func keptMeta(of client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: of.GetName(), Namespace: of.GetNamespace(), UID: of.GetUID(), ResourceVersion: of.GetResourceVersion(),
		Generation: of.GetGeneration(), DeletionTimestamp: of.GetDeletionTimestamp(), OwnerReferences: of.GetOwnerReferences(),
	}
}
