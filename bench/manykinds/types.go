// Package manykinds holds the kinds of the scenario kinds, which a program has in one manager. Each kind has a
// Go type of its own, as the kinds of a user have.
package manykinds

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Most is the largest number of kinds.
const Most = 50

// GroupVersion is the group and version of all kinds.
var GroupVersion = schema.GroupVersion{Group: "kinds.simple-bellerophon.io", Version: "v1"}

// Kind returns the name of the i-th kind, from 0.
func Kind(i int) string { return fmt.Sprintf("Horse%02d", i) }

// Plural returns the plural of the i-th kind.
func Plural(i int) string { return fmt.Sprintf("horse%02ds", i) }

// Object is an object of one kind. K distinguishes the Go types of the kinds, and has no values.
type Object[K any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`
}

// Spec is the desired state.
type Spec struct {
	Colour string `json:"colour,omitempty"`
}

// Status is the observed state.
type Status struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// DeepCopy returns a deep copy.
func (o *Object[K]) DeepCopy() *Object[K] {
	return &Object[K]{TypeMeta: o.TypeMeta, ObjectMeta: *o.ObjectMeta.DeepCopy(), Spec: o.Spec, Status: o.Status}
}

// DeepCopyObject implements runtime.Object.
func (o *Object[K]) DeepCopyObject() runtime.Object { return o.DeepCopy() }

// List is a list of objects of one kind.
type List[K any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Object[K] `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *List[K]) DeepCopyObject() runtime.Object {
	copied := &List[K]{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: make([]Object[K], len(l.Items))}
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopy()
	}
	return copied
}

// Register adds the i-th kind to a scheme, with the Go types for K.
func Register[K any](scheme *runtime.Scheme, i int) {
	scheme.AddKnownTypeWithName(GroupVersion.WithKind(Kind(i)), &Object[K]{})
	scheme.AddKnownTypeWithName(GroupVersion.WithKind(Kind(i)+"List"), &List[K]{})
}
