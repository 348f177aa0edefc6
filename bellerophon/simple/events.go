package simple

import (
	"fmt"
	"strings"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Reasons of Kubernetes Events, besides those of the condition Degraded.
const (
	eventRepaired  = "Repaired"
	eventRecreated = "Recreated"
	eventRecovered = "Recovered"
)

// tell records what the operator had to mend. What it does because a person just asked
// for it is no news; the conditions show how far it is.
func (r *reconciler) tell(hero *v1.BellerophonSimple, done []ensured) {
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
		r.events.Normal(hero, eventRepaired, "Apply", fmt.Sprintf("somebody changed the %s; it is back to what this object asks for", strings.Join(repairs, ", ")))
	}
	if len(recreations) > 0 {
		r.events.Normal(hero, eventRecreated, "Create", fmt.Sprintf("the %s was missing and is made anew", strings.Join(recreations, ", ")))
	}
}

// tellStatus records that trouble came or went.
func (r *reconciler) tellStatus(before, after *v1.BellerophonSimple) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1.ConditionDegraded)
	is := meta.FindStatusCondition(after.Status.Conditions, v1.ConditionDegraded)
	bad := is != nil && is.Status == "True"
	wasBad := was != nil && was.Status == "True"
	switch {
	case bad && (!wasBad || was.Reason != is.Reason):
		r.events.Warning(after, is.Reason, "Report", is.Message)
	case wasBad && !bad:
		r.events.Normal(after, eventRecovered, "Report", "the trouble is over: "+was.Reason)
	}
}
