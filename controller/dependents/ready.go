package dependents

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/internal/readiness"
	"github.com/bellerophon-io/bellerophon/streams"
)

// Readiness is the result of a ready check.
type Readiness struct {
	Ready   bool
	Failed  bool   // the object will not become ready unless it is changed
	Message string // why it is not ready

	// LookAgain asks for another check after this time. Only a check of something outside of the cluster
	// needs it: a change of the object makes a request.
	LookAgain time.Duration
}

// IsReady reports whether an object is ready. It is the ready check of dependents without one of their
// own.
//
//   - A Deployment, StatefulSet, DaemonSet or ReplicaSet is ready when all replicas of its current state
//     are available.
//   - A Job is ready when it is complete, and a Pod when it is ready or has succeeded.
//   - A PersistentVolumeClaim is ready when it is bound. With a StorageClass that waits for the first
//     consumer, the consumer must not come After it.
//   - A Service of type LoadBalancer is ready when it has an address, and a Namespace when it is active.
//   - Other objects of Kubernetes, such as a Secret, are ready when they exist.
//   - A custom resource is ready when its condition Ready, Available or Established is true: the first of
//     these that it has. Without conditions it is ready, unless its Go type has Status.Conditions. A
//     status of an older generation is not ready.
func IsReady(object streams.Object) Readiness { return readinessOf(readiness.Of(object)) }

func readinessOf(result readiness.Result) Readiness {
	return Readiness{Ready: result.Ready, Failed: result.Failed, Message: result.Message}
}

// Condition returns a ready check for [Children.Ready]: a condition in the status of the object is true, and
// not of an older generation.
func Condition[T streams.Object](conditionType string) func(ctx context.Context, object T) (Readiness, error) {
	return func(_ context.Context, object T) (Readiness, error) {
		result, has := readiness.Condition(object, conditionType)
		if !has {
			return Readiness{Message: fmt.Sprintf("it has no condition %s", conditionType)}, nil
		}
		return readinessOf(result), nil
	}
}
