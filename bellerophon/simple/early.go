package simple

import (
	"context"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/controller"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// While the cache lists existing children, it does not show what becomes of a new object's
// StatefulSet. The operator then reads that StatefulSet from the API server. Among 50,000 objects the
// lists take seconds, which a new object would otherwise wait for its status.

// lookLeast and lookMost bound the time between two such reads. In between, it grows with the time
// since the start.
const (
	lookLeast = 200 * time.Millisecond
	lookMost  = 2 * time.Second
)

// look returns the state of a StatefulSet on the API server. If something was just written, or the
// read fails, it returns what the cache shows.
func (r *reconciler) look(ctx context.Context, hero *v1.BellerophonSimple, shown *owned.StatefulSet, done []ensured) *owned.StatefulSet {
	if shown == nil {
		return nil
	}
	for _, child := range done {
		if child.action != unchanged || child.err != nil {
			return shown
		}
	}
	whole, err := controller.GetLive[*appsv1.StatefulSet](ctx, r.client, nameOf(hero))
	if err != nil || !metav1.IsControlledBy(whole, hero) {
		return shown
	}
	return r.kinds.StatefulSetOf(whole)
}

// lookAgain returns the time until the next look.
func (r *reconciler) lookAgain(now time.Time) time.Duration {
	return min(max(now.Sub(r.started)/4, lookLeast), lookMost)
}
