package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Phase sums the conditions up for people.
// +kubebuilder:validation:Enum=Pending;Bootstrapping;Running;Updating;Degraded;Paused;Deleting
type Phase string

// The phases.
const (
	PhasePending       Phase = "Pending"
	PhaseBootstrapping Phase = "Bootstrapping"
	PhaseRunning       Phase = "Running"
	PhaseUpdating      Phase = "Updating"
	PhaseDegraded      Phase = "Degraded"
	PhasePaused        Phase = "Paused"
	PhaseDeleting      Phase = "Deleting"
)

// The types of the conditions in the status of a [Bellerophon].
const (
	// ConditionReady is true while every desired member is ready and of the desired revision.
	ConditionReady = "Ready"
	// ConditionAvailable is true while the store answers reads and writes.
	ConditionAvailable = "Available"
	// ConditionProgressing is true while the cluster converges to the desired state.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is true while a problem keeps the cluster from the desired state, and waiting alone does not
	// solve it.
	ConditionDegraded = "Degraded"
	// ConditionEvenReplicas is true while one member does not vote, because the number of members is even.
	ConditionEvenReplicas = "EvenReplicas"
)

// BellerophonStatus is the state that the operator observed.
type BellerophonStatus struct {
	// The metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// A summary of the conditions.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Name of the cluster that the members belong to. It is set before the first member makes the cluster, and never
	// changes.
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// Whether the cluster was made. From then on, no member makes one again.
	// +optional
	Bootstrapped bool `json:"bootstrapped,omitempty"`

	// Whether the backup of spec.restore was restored.
	// +optional
	Restored bool `json:"restored,omitempty"`

	// When the last backup was completed.
	// +optional
	LastBackup *metav1.Time `json:"lastBackup,omitempty"`

	// Number of pods that exist.
	// +optional
	Replicas int32 `json:"replicas"`

	// Number of members that are ready, in pods that are Ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// Label selector of the members' pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Pod of the leader. It is empty during an election.
	// +optional
	Leader string `json:"leader,omitempty"`

	// The members, ordered by pod.
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []Member `json:"members,omitempty"`

	// Revision of the pods' template that all members have, or had before the update in progress.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// Revision of the pods' template that the members shall have.
	// +optional
	TargetRevision string `json:"targetRevision,omitempty"`

	// The conditions, each with its reason.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Member is a member of the cluster.
type Member struct {
	// Name of the pod.
	Name string `json:"name"`
	// ID of the member, which is new for each volume.
	// +optional
	ID string `json:"id,omitempty"`
	// What the member does: leader, follower, learner, candidate or waiting; unreachable if it does not answer.
	// +optional
	Role string `json:"role,omitempty"`
	// Whether it is ready, and its pod is Ready, so that the Service sends requests to it.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// How many entries it has yet to apply, of the entries that the leader had committed when it last said so. Fewer than
	// 100 are left out, because some are in flight at any time.
	// +optional
	Lag int64 `json:"lag,omitempty"`
	// Revision of the pod's template.
	// +optional
	Revision string `json:"revision,omitempty"`
}
