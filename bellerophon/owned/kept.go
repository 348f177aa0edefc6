package owned

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The types below are the projections of children and pods that the cache keeps. A whole child takes
// ten times as much memory. A projection holds the owner, the sum of the fields that the controller
// owns, and the fields that a status needs.

// Sum is a hash of the fields of a child that its controller owns, with a seed of the process.
type Sum uint64

// Child is the projection of each child. Its metadata holds namespace, name, uid, resource version,
// generation, owners and the deletion timestamp.
type Child struct {
	metav1.ObjectMeta
	// OwnedFields changes with the fields that the controller owns. It is exported to be in the JSON:
	// the runtime compares the JSON of versions, and so finds a fight over these fields.
	OwnedFields Sum `json:"ownedFields"`

	app uint64 // the hash of the app whose labels the child has
}

// GetObjectKind returns an empty kind, because the Go type identifies the kind.
func (*Child) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// Sum returns the sum of the owned fields. It is 0 for a child with the label of an unknown app.
func (c *Child) Sum() Sum { return c.OwnedFields }

// IsLabelled reports whether the whole child had the labels of an app's child: see [IsLabelled].
func (c *Child) IsLabelled(app string) bool { return c.app == hashOf(app) }

func (c *Child) copy() Child { return Child{*c.DeepCopy(), c.OwnedFields, c.app} }

// ConfigMap is the projection of a ConfigMap.
type ConfigMap struct{ Child }

// DeepCopyObject returns a deep copy.
func (c *ConfigMap) DeepCopyObject() runtime.Object { return &ConfigMap{c.copy()} }

// IsReady reports that a ConfigMap that exists is ready.
func (*ConfigMap) IsReady() (ready bool, why string) { return true, "" }

// Service is the projection of a Service.
type Service struct{ Child }

// DeepCopyObject returns a deep copy.
func (s *Service) DeepCopyObject() runtime.Object { return &Service{s.copy()} }

// IsReady reports that a headless Service that exists is ready.
func (*Service) IsReady() (ready bool, why string) { return true, "" }

// StatefulSet is the projection of a StatefulSet.
type StatefulSet struct {
	Child
	Observed                 int64 // the observed generation
	Replicas, Ready, Updated int32
	Revised                  bool // the current revision is the updated one

	wanted int32 // replicas of the spec
	// Whole is the StatefulSet itself, for an app whose [Fields] ask for it. It must not be changed.
	Whole *appsv1.StatefulSet
}

// DeepCopyObject returns a deep copy.
func (s *StatefulSet) DeepCopyObject() runtime.Object {
	copied := *s
	copied.Child = s.copy()
	return &copied
}

// childOf projects the fields that the runtime does not keep on its own.
func childOf(whole metav1.Object, sum Sum) Child {
	kept := Child{OwnedFields: sum, app: hashOf(appOf(whole))}
	kept.Generation = whole.GetGeneration()
	kept.DeletionTimestamp = whole.GetDeletionTimestamp().DeepCopy()
	return kept
}

func keepStatefulSet(whole *appsv1.StatefulSet, of Fields) *StatefulSet {
	status := &whole.Status
	kept := &StatefulSet{
		Child:    childOf(whole, sumOf(whole, of.StatefulSet)),
		Observed: status.ObservedGeneration,
		Replicas: status.Replicas, Ready: status.ReadyReplicas, Updated: status.UpdatedReplicas,
		Revised: status.CurrentRevision == status.UpdateRevision,
	}
	if kept.wanted = 1; whole.Spec.Replicas != nil {
		kept.wanted = *whole.Spec.Replicas
	}
	if of.Whole {
		kept.Whole = whole
	}
	return kept
}

// IsReady reports whether all replicas of the spec are ready and of the newest template.
func (s *StatefulSet) IsReady() (ready bool, why string) {
	switch {
	case s.Observed < s.Generation:
		return false, fmt.Sprintf("its controller has not seen generation %d", s.Generation)
	case s.Ready < s.wanted:
		return false, fmt.Sprintf("%d of %d replicas are ready", s.Ready, s.wanted)
	case s.Updated < s.wanted:
		return false, fmt.Sprintf("%d of %d replicas are updated", s.Updated, s.wanted)
	}
	return true, ""
}

// Pod is the projection of a pod: its problem, if it has one.
type Pod struct {
	metav1.ObjectMeta // with LabelApp and LabelInstance, which name the owner of the pod's StatefulSet
	Problem           *Problem
	// Whole is the pod itself, for an app whose [Fields] ask for it. It must not be changed.
	Whole *corev1.Pod
}

// GetObjectKind returns an empty kind, because the Go type identifies the kind.
func (*Pod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns a deep copy.
func (p *Pod) DeepCopyObject() runtime.Object {
	copied := &Pod{ObjectMeta: *p.DeepCopy(), Whole: p.Whole}
	if p.Problem != nil {
		problem := *p.Problem
		copied.Problem = &problem
	}
	return copied
}

func keepPod(whole *corev1.Pod, of Fields) *Pod {
	kept := &Pod{Problem: problemOf(whole)}
	if of.Whole {
		kept.Whole = whole
	}
	kept.DeletionTimestamp = whole.DeletionTimestamp.DeepCopy()
	if name := whole.Labels[LabelInstance]; name != "" {
		kept.Labels = map[string]string{LabelApp: whole.Labels[LabelApp], LabelInstance: name}
	}
	return kept
}
