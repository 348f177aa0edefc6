package v1

// The types of the conditions in the status of a [BellerophonSimple].
const (
	// ConditionReady is true while every wanted server is ready.
	ConditionReady = "Ready"
	// ConditionProgressing is true while the servers are on their way to what is wanted.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is true while something keeps the servers from what is wanted
	// that does not go away by waiting.
	ConditionDegraded = "Degraded"
)

// The reasons that the conditions give.
const (
	// ReasonAllReplicasReady means: as many servers are ready as are wanted, at the wanted revision.
	ReasonAllReplicasReady = "AllReplicasReady"
	// ReasonRollingOut means: servers are being created, replaced or removed.
	ReasonRollingOut = "RollingOut"
	// ReasonScaledToZero means: no server is wanted, and none exists.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonReplicasNotReady means: fewer servers are ready than are wanted.
	ReasonReplicasNotReady = "ReplicasNotReady"
	// ReasonImagePullFailed means: a node cannot pull the image.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonUnschedulable means: no node has room for a server.
	ReasonUnschedulable = "Unschedulable"
	// ReasonCrashLooping means: a server ends again and again after its start.
	ReasonCrashLooping = "CrashLooping"
	// ReasonCannotStart means: a node cannot start a server's container.
	ReasonCannotStart = "CannotStart"
	// ReasonReplicasNotCreated means: servers are missing that something keeps from being
	// created, such as a quota or a policy.
	ReasonReplicasNotCreated = "ReplicasNotCreated"
	// ReasonNameConflict means: an object of the same name exists and belongs to someone else.
	ReasonNameConflict = "NameConflict"
	// ReasonWriteRefused means: the API server refused what the operator wrote.
	ReasonWriteRefused = "WriteRefused"
)
