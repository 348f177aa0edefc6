package history

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Slow is the last attempt for an object.
type Slow struct {
	Object types.NamespacedName
	ID     string // the reconcileID of logs
	Took   time.Duration
	Ended  time.Time
}

// Slowest returns up to most objects of each controller, by the durations of their last attempts, the longest first. It looks at each
// remembered object once.
func (h *History) Slowest(most int) map[string][]Slow {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := map[string][]*attempt{}
	for of, line := range h.attempts.lines {
		last := &line.last.value
		known := kept[of.controller]
		place, _ := slices.BinarySearchFunc(known, last, compareSlow)
		if place >= most {
			continue
		}
		if known = slices.Insert(known, place, last); len(known) > most {
			known = known[:most]
		}
		kept[of.controller] = known
	}
	slowest := make(map[string][]Slow, len(kept))
	for controller, known := range kept {
		for _, last := range known {
			slowest[controller] = append(slowest[controller], Slow{last.result.NamespacedName, last.id(), last.result.Duration, last.result.Started.Add(last.result.Duration)})
		}
	}
	return slowest
}

// compareSlow orders attempts by their durations, the longest first, and equal ones by their objects.
func compareSlow(a, b *attempt) int {
	return cmp.Or(cmp.Compare(b.result.Duration, a.result.Duration), cmp.Compare(a.result.Namespace, b.result.Namespace), cmp.Compare(a.result.Name, b.result.Name))
}

// Updated returns a channel that is closed when another attempt has ended, or when the cache shows a write of one.
func (h *History) Updated() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.updated == nil {
		h.updated = make(chan struct{})
	}
	return h.updated
}
