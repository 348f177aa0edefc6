package history

import (
	"github.com/bellerophon-io/bellerophon/operators"
	"k8s.io/apimachinery/pkg/types"
)

// Find returns the controller and the object of a remembered attempt, by [operators.AttemptID].
func (h *History) Find(id string) (controller string, object types.NamespacedName, found bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for of, line := range h.attempts.lines {
		for made := line.first; made != nil; made = made.next {
			if operators.AttemptID(of.controller, of.NamespacedName, made.value.result.Started) == id {
				return of.controller, of.NamespacedName, true
			}
		}
	}
	return "", types.NamespacedName{}, false
}
