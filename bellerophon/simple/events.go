package simple

import (
	"context"
	"fmt"
	"strings"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// The reasons of Kubernetes Events. The reasons of the condition Degraded are used too.
const (
	eventRepaired  = "Repaired"
	eventRecreated = "Recreated"
	eventRecovered = "Recovered"
)

// recordRepairs records an Event for repairs and recreations. Writes that follow a change of the spec
// are expected and get no Event; the conditions show their progress.
func (r *reconciler) recordRepairs(ctx context.Context, hero *v1.BellerophonSimple, done []ensured) {
	if hero.Status.ObservedGeneration != hero.Generation {
		return
	}
	var repairs, recreations []string
	for _, child := range done {
		switch {
		case child.err != nil:
		case child.action == repaired:
			repairs = append(repairs, child.what)
		case child.action == created:
			recreations = append(recreations, child.what)
		}
	}
	if len(repairs) > 0 {
		r.events.Within(ctx).Normal(hero, eventRepaired, "Apply", fmt.Sprintf("changed by another client and restored: %s", strings.Join(repairs, ", ")))
	}
	if len(recreations) > 0 {
		r.events.Within(ctx).Normal(hero, eventRecreated, "Create", fmt.Sprintf("missing and recreated: %s", strings.Join(recreations, ", ")))
	}
}

// recordTrouble records an Event when the condition Degraded becomes true, gets another reason, or
// becomes false.
func (r *reconciler) recordTrouble(ctx context.Context, before, after *v1.BellerophonSimple) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1.ConditionDegraded)
	is := meta.FindStatusCondition(after.Status.Conditions, v1.ConditionDegraded)
	bad := is != nil && is.Status == "True"
	wasBad := was != nil && was.Status == "True"
	switch {
	case bad && (!wasBad || was.Reason != is.Reason):
		r.events.Within(ctx).Warning(after, is.Reason, "Report", is.Message)
	case wasBad && !bad:
		r.events.Within(ctx).Normal(after, eventRecovered, "Report", "no longer degraded: "+was.Reason)
	}
}
