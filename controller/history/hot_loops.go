package history

import (
	"slices"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// HotLoops returns the results of attempts as they are, and looks for hot loops in them: see [HotLoop]. It calls
// Options.Found for each loop that is new. The results must have passed [History.Remember] before.
//
//	[a b] [c]  =>  [a b] [c], with Found(b) for a loop that b completes
func (h *History) HotLoops(results streams.Stream[operators.Result]) streams.Stream[operators.Result] {
	return h.find(results, h.hotLoop)
}

// hotLoop returns the hot loop that a result completes, or nil. The caller holds the lock.
func (h *History) hotLoop(batch *batch, result *operators.Result) *Finding {
	name, now, loops := targetOf(result), endOf(result), h.followsFromOwn(batch, result)
	known := h.suspect(name, now)
	switch {
	case known != nil && known.held.loop:
		known.held.loop = false
		return nil
	case known == nil && !loops:
		return nil
	case known == nil:
		known = h.newSuspect(name)
	}
	if !loops {
		known.loop = nil
		h.release(name, known)
		return nil
	}
	if known.loop = append(known.loop, now); len(known.loop) > loopRounds {
		known.loop = slices.Delete(known.loop, 0, len(known.loop)-loopRounds)
	}
	written := result.Writes[len(result.Writes)-1].Key
	isFast := len(known.loop) == loopRounds && now.Sub(known.loop[0]) <= within
	if !isFast && !known.goesOn(HotLoop, written) {
		return nil
	}
	return h.seen(name, known, Finding{Pattern: HotLoop, Written: written, Rounds: loopRounds, Since: known.loop[0]}, now)
}

// followsFromOwn reports whether an attempt wrote, and had no cause but its own controller's writes. The caller holds the
// lock.
func (h *History) followsFromOwn(batch *batch, result *operators.Result) bool {
	return len(result.Writes) > 0 && len(result.Causes) > 0 && !slices.ContainsFunc(result.Causes, func(cause streams.Cause) bool {
		return !h.wrote(batch, result.Controller, cause)
	})
}
