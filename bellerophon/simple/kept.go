package simple

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The types below are what the cache keeps of the children and of the pods, where a whole
// child takes ten times as much: whose it is, the sum of what the operator owns of it, and
// what the status tells of.

// child is what is kept of each child. Of its metadata there are names, uid, versions,
// owners, and whether it is being deleted.
type child struct {
	metav1.ObjectMeta
	owned    sum
	labelled bool // see isLabelled
}

// GetObjectKind is empty: the Go type says what it is.
func (*child) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func (c *child) sumOf() sum { return c.owned }

func (c *child) isLabelled() bool { return c.labelled }

func (c *child) copy() child { return child{*c.DeepCopy(), c.owned, c.labelled} }

type config struct{ child }

func (c *config) DeepCopyObject() runtime.Object { return &config{c.copy()} }

type service struct{ child }

func (s *service) DeepCopyObject() runtime.Object { return &service{s.copy()} }

// servers is what is kept of a StatefulSet.
type servers struct {
	child
	observed                 int64 // generation
	replicas, ready, updated int32
	revised                  bool // the current revision is the updated one
}

func (s *servers) DeepCopyObject() runtime.Object {
	copied := *s
	copied.child = s.copy()
	return &copied
}

// pod is what is kept of a pod: what is wrong with it.
type pod struct {
	metav1.ObjectMeta // with the label of the object whose server it is
	problem           *problem
}

func (*pod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func (p *pod) DeepCopyObject() runtime.Object {
	copied := &pod{ObjectMeta: *p.DeepCopy()}
	if p.problem != nil {
		problem := *p.problem
		copied.problem = &problem
	}
	return copied
}

// childOf keeps what the runtime does not keep by itself.
func childOf(whole metav1.Object, owned sum) child {
	kept := child{owned: owned, labelled: isLabelled(whole)}
	kept.Generation = whole.GetGeneration()
	kept.DeletionTimestamp = whole.GetDeletionTimestamp().DeepCopy()
	return kept
}

func keepConfig(whole *corev1.ConfigMap) *config { return &config{childOf(whole, sumOfConfig(whole))} }

func keepService(whole *corev1.Service) *service {
	return &service{childOf(whole, sumOfService(whole))}
}

func keepServers(whole *appsv1.StatefulSet) *servers {
	status := &whole.Status
	return &servers{
		child:    childOf(whole, sumOfServers(whole)),
		observed: status.ObservedGeneration,
		replicas: status.Replicas, ready: status.ReadyReplicas, updated: status.UpdatedReplicas,
		revised: status.CurrentRevision == status.UpdateRevision,
	}
}

func keepPod(whole *corev1.Pod) *pod {
	kept := &pod{problem: problemOf(whole)}
	kept.DeletionTimestamp = whole.DeletionTimestamp.DeepCopy()
	if name := whole.Labels[labelInstance]; name != "" {
		kept.Labels = map[string]string{labelInstance: name}
	}
	return kept
}
