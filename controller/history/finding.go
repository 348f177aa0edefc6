package history

import (
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// Pattern is a pattern of attempts that does not end by itself.
type Pattern string

// The patterns.
const (
	// Fight means that another client changes fields as often as the controller restores them: five times within
	// ten seconds.
	Fight Pattern = "fight"

	// HotLoop means that attempts follow from nothing but the controller's own writes, and write again: fifty in a
	// row within ten seconds.
	HotLoop Pattern = "hot_loop"
)

// The numbers of the patterns. A procedure that writes its progress for each step makes fewer steps than loopRounds, or
// takes longer.
const (
	fightRounds = 5
	loopRounds  = 50
	within      = 10 * time.Second
	calmAfter   = time.Minute // without a further round, the pattern has ended
)

// The times between attempts while a pattern goes on. Each attempt doubles the time.
const (
	firstHold = time.Second
	maxHold   = 30 * time.Second
)

// maxSuspects bounds the objects whose attempts are counted.
const maxSuspects = 4096

// Finding is a pattern that was found.
type Finding struct {
	Pattern    Pattern
	Controller string
	Object     types.NamespacedName // of the controller
	Written    streams.Key          // the object that is written again and again
	Fields     []string             // of a fight: the paths that both sides change; empty if they are not known
	Managers   []string             // of a fight: the field managers of the other side, where the cache keeps them
	Rounds     int                  // so far
	Since      time.Time
	Last       time.Time
}

// suspect has the rounds of one object of a controller.
type suspect struct {
	fights map[streams.Key][]round
	loop   []time.Time // of the attempts in a row; at most loopRounds
	found  *Finding
	hold   time.Duration
	until  time.Time                  // no attempt begins before
	held   struct{ loop, fight bool } // the attempt that runs was held back, and the operator has not seen its result
}

// Hold returns how long an attempt has to wait that is about to begin, because its object is in a pattern. It is 0 for all
// other attempts. The caller must end an attempt that has to wait without an effect, and ask for another one.
//
// A change of the object's own spec is worth an attempt at once, unless this is what the fight is about.
func (h *History) Hold(of operators.Request, own streams.Key) time.Duration {
	if h.inPattern.Load() == 0 {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.suspects[target{of.Controller, of.NamespacedName}]
	if known == nil || known.found == nil || of.SpecChanged && known.found.Written != own {
		return 0
	}
	wait := time.Until(known.until)
	known.held.loop, known.held.fight = wait > 0, wait > 0
	return max(0, wait)
}

// FindingOf returns the pattern of an object that has not ended, and how long it takes to end if there is no further round.
func (h *History) FindingOf(controller string, object types.NamespacedName) (finding Finding, left time.Duration, found bool) {
	if h.inPattern.Load() == 0 {
		return Finding{}, 0, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	known := h.suspects[target{controller, object}]
	if known == nil || known.found == nil || known.isCalm(now) {
		return Finding{}, 0, false
	}
	return *known.found, known.calmAt().Sub(now), true
}

// Findings returns the patterns that have not ended, in no order.
func (h *History) Findings() []Finding { return h.FindingsAt(time.Now()) }

// FindingsAt returns the patterns that had not ended at a time, in no order, such as a time of a recording. All attempts so
// far must have ended before.
func (h *History) FindingsAt(now time.Time) (findings []Finding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, known := range h.suspects {
		if known.found != nil && !known.isCalm(now) {
			findings = append(findings, *known.found)
		}
	}
	return findings
}

// isCalm reports whether the pattern has ended.
func (s *suspect) isCalm(now time.Time) bool {
	return now.After(s.calmAt())
}

// calmAt returns when the pattern has ended if there is no further round.
func (s *suspect) calmAt() time.Time {
	return s.found.Last.Add(max(calmAfter, 2*s.hold))
}

// find returns an operator that passes results on and reports the patterns that look finds.
func (h *History) find(results streams.Stream[operators.Result], look func(batch *batch, result *operators.Result) *Finding) streams.Stream[operators.Result] {
	return streams.MapOnReceive(results, func(batch []operators.Result) ([]operators.Result, error) {
		h.look(batch, look)
		return batch, nil
	})
}

// look reports the patterns that look finds.
func (h *History) look(results []operators.Result, look func(batch *batch, result *operators.Result) *Finding) {
	for _, finding := range h.findings(results, look) {
		if h.options.Found != nil {
			h.options.Found(finding)
		}
	}
}

// findings returns the patterns that look finds.
func (h *History) findings(results []operators.Result, look func(batch *batch, result *operators.Result) *Finding) (found []Finding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	batch := batch{results: results}
	for i := range results {
		if finding := look(&batch, &results[i]); finding != nil {
			found = append(found, *finding)
		}
	}
	return found
}

// batch has results that are remembered together. If they are many, some are forgotten before an operator sees them.
type batch struct {
	results []operators.Result
	writers map[version]string // the controllers of the writes; nil until it is needed
}

// wrote reports whether a controller has written the version of a cause, as far as that is known. The caller holds the lock.
func (h *History) wrote(batch *batch, controller string, cause streams.Cause) bool {
	of := version{cause.Key, cause.ResourceVersion}
	if by := h.writers[of]; by != nil || len(batch.results) == 1 {
		return by != nil && by.result.Controller == controller
	}
	if batch.writers == nil {
		batch.writers = map[version]string{}
		for _, result := range batch.results {
			for _, write := range result.Writes {
				batch.writers[version{write.Key, write.ResourceVersion}] = result.Controller
			}
		}
	}
	return cause.ResourceVersion != "" && batch.writers[of] == controller
}

// endOf returns when an attempt ended.
func endOf(result *operators.Result) time.Time { return result.Started.Add(result.Duration) }

// suspect returns the rounds of an object, or nil. It forgets a pattern that has ended. The caller holds the lock.
func (h *History) suspect(name target, now time.Time) *suspect {
	known := h.suspects[name]
	if known != nil && known.found != nil && known.isCalm(now) {
		delete(h.suspects, name)
		h.inPattern.Add(-1)
		return nil
	}
	return known
}

// newSuspect begins to count the rounds of an object. The caller holds the lock.
func (h *History) newSuspect(name target) *suspect {
	if len(h.suspects) >= maxSuspects {
		clear(h.suspects) // Their patterns are found again.
		h.inPattern.Store(0)
	}
	made := &suspect{fights: map[streams.Key][]round{}}
	h.suspects[name] = made
	return made
}

// release forgets an object that is in no pattern, and in no beginning of one. The caller holds the lock.
func (h *History) release(name target, known *suspect) {
	if known.found == nil && known.loop == nil && len(known.fights) == 0 {
		delete(h.suspects, name)
	}
}

// seen notes that an attempt completes a pattern or goes on with it. It returns the finding if it is new. The caller holds
// the lock.
func (h *History) seen(name target, s *suspect, seen Finding, now time.Time) *Finding {
	if s.found == nil {
		h.inPattern.Add(1)
	}
	seen.Controller, seen.Object, seen.Last = name.controller, name.NamespacedName, now
	isNew := !s.goesOn(seen.Pattern, seen.Written)
	if !isNew {
		seen.Rounds, seen.Since = s.found.Rounds+1, s.found.Since
	}
	s.found = &seen
	s.hold = min(max(firstHold, 2*s.hold), maxHold)
	s.until = now.Add(s.hold)
	if !isNew {
		return nil
	}
	found := seen
	return &found
}

// goesOn reports whether a pattern was found before.
func (s *suspect) goesOn(pattern Pattern, written streams.Key) bool {
	return s.found != nil && s.found.Pattern == pattern && s.found.Written == written
}
