package v1

// The types of the conditions in the status of a [BellerophonSimple].
const (
	// ConditionReady is true while every desired server is ready.
	ConditionReady = "Ready"
	// ConditionProgressing is true while the servers converge to the desired state.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is true while a problem keeps the servers from the desired state, and
	// waiting alone does not solve it.
	ConditionDegraded = "Degraded"
)

// The reasons of the conditions.
const (
	// ReasonPending means: the operator has not reported the object yet. The resource definition sets it.
	ReasonPending = "Pending"
	// ReasonAllReplicasReady means: as many servers are ready as desired, at the desired revision.
	ReasonAllReplicasReady = "AllReplicasReady"
	// ReasonRollingOut means: servers are being created, replaced or removed.
	ReasonRollingOut = "RollingOut"
	// ReasonScaledToZero means: no server is desired, and none exists.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonReplicasNotReady means: fewer servers are ready than desired.
	ReasonReplicasNotReady = "ReplicasNotReady"
	// ReasonImagePullFailed means: a node cannot pull the image.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonUnschedulable means: no node has room for a server.
	ReasonUnschedulable = "Unschedulable"
	// ReasonCrashLooping means: a server exits repeatedly after its start.
	ReasonCrashLooping = "CrashLooping"
	// ReasonCannotStart means: a node cannot start a server's container.
	ReasonCannotStart = "CannotStart"
	// ReasonReplicasNotCreated means: servers are missing, because something such as a quota or a
	// policy prevents their creation.
	ReasonReplicasNotCreated = "ReplicasNotCreated"
	// ReasonNameConflict means: an object of the same name exists, and this object does not own it.
	ReasonNameConflict = "NameConflict"
	// ReasonWriteRefused means: the API server refused a write of the operator.
	ReasonWriteRefused = "WriteRefused"
)
