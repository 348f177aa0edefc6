package controller

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These are the longest values that the API server takes in a metav1.Condition, in characters.
const (
	longestReason  = 1024
	longestMessage = 32768
)

// SetConditions sets conditions in the status of an object, each by its type, and reports whether that
// changed anything. generation is the one of the object that the conditions describe.
//
//	changed := controller.SetConditions(&hero.Status.Conditions, hero.Generation,
//		metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Running"},
//		metav1.Condition{Type: "Degraded", Status: metav1.ConditionFalse, Reason: "AsExpected"})
//
// Other conditions stay as they are. The order is by type, whatever was set first. A transition time is
// the time when Status changed last: it stays if only the reason or the message change. If a given
// condition has a transition time, a change takes that one, and not the current time.
//
// A message or a reason that is longer than the API server allows is cut. An empty reason, which the API
// server refuses, becomes "Unspecified", and an empty Status becomes Unknown.
func SetConditions(conditions *[]metav1.Condition, generation int64, set ...metav1.Condition) (changed bool) {
	after := slices.Clone(*conditions)
	for _, wanted := range set {
		wanted = allowedCondition(wanted)
		wanted.ObservedGeneration = generation
		at := slices.IndexFunc(after, func(known metav1.Condition) bool { return known.Type == wanted.Type })
		if at >= 0 && after[at].Status == wanted.Status && !after[at].LastTransitionTime.IsZero() {
			wanted.LastTransitionTime = after[at].LastTransitionTime
		}
		if wanted.LastTransitionTime.IsZero() {
			wanted.LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second)) // As it is stored.
		}
		if at < 0 {
			after = append(after, wanted)
			continue
		}
		after[at] = wanted
	}
	slices.SortStableFunc(after, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	if slices.EqualFunc(after, *conditions, sameCondition) {
		return false
	}
	*conditions = after
	return true
}

// sameCondition reports whether two conditions are stored as the same one.
func sameCondition(a, b metav1.Condition) bool {
	same := a.LastTransitionTime.Equal(&b.LastTransitionTime)
	a.LastTransitionTime = b.LastTransitionTime
	return same && a == b
}

// allowedCondition returns a condition as the API server takes it.
func allowedCondition(condition metav1.Condition) metav1.Condition {
	if condition.Status == "" {
		condition.Status = metav1.ConditionUnknown
	}
	if condition.Reason = shortened(condition.Reason, longestReason, ""); condition.Reason == "" {
		condition.Reason = "Unspecified"
	}
	condition.Message = shortened(condition.Message, longestMessage, "…")
	return condition
}

// shortened returns a text with at most the given number of characters. A text that is cut ends with end.
func shortened(text string, most int, end string) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if len(text) <= most || utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-utf8.RuneCountInString(end)]) + end
}
