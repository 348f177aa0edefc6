package states

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Verdict is the operator's answer to a spec.
type Verdict int

const (
	// Pending means that the operator has not answered so far.
	Pending Verdict = iota
	// Healthy means that the object is as its spec asks for.
	Healthy
	// Unhealthy means that the operator reports a problem.
	Unhealthy
)

// String returns the verdict as a word.
func (v Verdict) String() string {
	return [...]string{"pending", "healthy", "unhealthy"}[v]
}

var (
	goodConditions = []string{"Ready", "Available", "Healthy"}
	badConditions  = []string{"Degraded", "Failed", "Stalled", "Error"}
	busyConditions = []string{"Progressing", "Reconciling"}
)

// Conditions reads the operator's answer from the conditions in the status. An object is Unhealthy if
// Degraded, Failed, Stalled or Error is True. It is Healthy if Ready, Available or Healthy is True. If
// one of these is False and neither Progressing nor Reconciling is True, it is Unhealthy. The text joins the messages.
func Conditions(object *unstructured.Unstructured) (Verdict, string) {
	status := map[string]string{}
	var messages []string
	for _, condition := range conditionsOf(object) {
		kind, _ := condition["type"].(string)
		status[kind], _ = condition["status"].(string)
		reason, _ := condition["reason"].(string)
		message, _ := condition["message"].(string)
		messages = append(messages, reason+": "+message)
	}
	text := strings.Join(messages, "; ")
	isAny := func(kinds []string, is string) bool {
		return slices.ContainsFunc(kinds, func(kind string) bool { return status[kind] == is })
	}
	switch {
	case isAny(badConditions, "True"):
		return Unhealthy, text
	case isAny(goodConditions, "True") && !isAny(goodConditions, "False"):
		return Healthy, text
	case isAny(goodConditions, "False") && !isAny(busyConditions, "True"):
		return Unhealthy, text
	}
	return Pending, text
}

func conditionsOf(object *unstructured.Unstructured) (conditions []map[string]any) {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		if condition, ok := item.(map[string]any); ok {
			conditions = append(conditions, condition)
		}
	}
	return conditions
}

// isCurrent reports whether the status describes the current generation, as far as the status says so.
func isCurrent(object *unstructured.Unstructured) bool {
	generation := object.GetGeneration()
	if observed, found, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); found && err == nil {
		return observed == generation
	}
	for _, condition := range conditionsOf(object) {
		if observed, ok := condition["observedGeneration"].(int64); ok && observed != generation {
			return false
		}
	}
	return true
}

// names reports whether a text names one of the fields of a state, or one of its short values.
func (s state) names(text string) bool {
	return slices.ContainsFunc(s.changes, func(c change) bool {
		if c.field.isNamedIn(text) {
			return true
		}
		value, ok := c.value.set.(string)
		return ok && len(value) >= 4 && strings.Contains(text, value)
	})
}

// isNamedIn reports whether a text has the last part of the field's path as a word, or its whole path.
func (f *field) isNamedIn(text string) bool {
	if strings.Contains(text, f.String()) {
		return true
	}
	name := strings.ToLower(f.path[len(f.path)-1])
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return r != '_' && r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return slices.Contains(words, name)
}
