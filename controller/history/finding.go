package history

import (
	"slices"
	"strings"
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
	until  time.Time // no attempt begins before
	held   bool      // the attempt that runs was held back
}

// round is one exchange of a fight.
type round struct {
	at             time.Time
	theirs, answer version
}

// Hold returns how long an attempt has to wait that is about to begin, because its object is in a pattern. It is 0 for all
// other attempts. The caller must end an attempt that has to wait without an effect, and ask for another one.
//
// A change of the object's own spec is worth an attempt at once, unless this is what the fight is about.
func (h *History) Hold(of operators.Request, own streams.Key) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.suspects[target{of.Controller, of.NamespacedName}]
	if known == nil || known.found == nil || of.SpecChanged && known.found.Written != own {
		return 0
	}
	wait := time.Until(known.until)
	known.held = wait > 0
	return max(0, wait)
}

// FindingOf returns the pattern of an object that has not ended, and how long it takes to end if there is no further round.
func (h *History) FindingOf(controller string, object types.NamespacedName) (finding Finding, left time.Duration, found bool) {
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

// judge looks for a pattern that an attempt completes or goes on with. It returns a finding that is new. The caller
// holds the lock.
func (h *History) judge(of *attempt) *Finding {
	name := targetOf(&of.result)
	known := h.suspects[name]
	if known != nil && known.held {
		known.held = false
		return nil
	}
	now := of.result.Started.Add(of.result.Duration)
	if known != nil && known.found != nil && known.isCalm(now) {
		delete(h.suspects, name)
		known = nil
	}
	loops, rounds := h.roundsOf(of, now)
	if known == nil {
		if !loops && len(rounds) == 0 {
			return nil
		}
		if len(h.suspects) >= maxSuspects {
			clear(h.suspects) // Their patterns are found again.
		}
		known = &suspect{fights: map[streams.Key][]round{}}
		h.suspects[name] = known
	}
	if known.loop = append(known.loop, now); !loops {
		known.loop = nil
	}
	if excess := len(known.loop) - loopRounds; excess > 0 {
		known.loop = slices.Delete(known.loop, 0, excess)
	}
	for key, made := range rounds {
		known.fights[key] = append(known.fights[key], made)
		if excess := len(known.fights[key]) - fightRounds; excess > 0 {
			known.fights[key] = slices.Delete(known.fights[key], 0, excess)
		}
	}
	seen := h.pattern(known, of, now, rounds)
	if seen == nil {
		if known.found == nil && known.loop == nil && len(rounds) == 0 {
			known.forgetOld(now)
			if len(known.fights) == 0 {
				delete(h.suspects, name)
			}
		}
		return nil
	}
	seen.Controller, seen.Object, seen.Last = name.controller, name.NamespacedName, now
	isNew := known.found == nil || known.found.Pattern != seen.Pattern || known.found.Written != seen.Written
	if !isNew {
		seen.Rounds, seen.Since = known.found.Rounds+1, known.found.Since
	}
	known.found = seen
	known.hold = min(max(firstHold, 2*known.hold), maxHold)
	known.until = now.Add(known.hold)
	if !isNew {
		return nil
	}
	found := *seen
	return &found
}

// roundsOf returns what an attempt may be a part of. In a loop, it wrote and had no cause but its own controller's
// writes. A fight has a round for each object that it wrote after another client had.
func (h *History) roundsOf(of *attempt, now time.Time) (loops bool, rounds map[streams.Key]round) {
	result := &of.result
	if len(result.Writes) == 0 {
		return false, nil
	}
	loops = len(result.Causes) > 0
	for _, cause := range result.Causes {
		by := h.writers[version{cause.Key, cause.ResourceVersion}]
		if by != nil && by.result.Controller == result.Controller {
			continue
		}
		loops = false
		if cause.Type != streams.Applied {
			continue
		}
		for _, write := range result.Writes {
			if write.Key == cause.Key && write.ResourceVersion != "" {
				if rounds == nil {
					rounds = map[streams.Key]round{}
				}
				rounds[cause.Key] = round{now, version{cause.Key, cause.ResourceVersion}, version{write.Key, write.ResourceVersion}}
			}
		}
	}
	return loops, rounds
}

// forgetOld forgets fights without a recent round.
func (s *suspect) forgetOld(now time.Time) {
	for key, made := range s.fights {
		if now.Sub(made[len(made)-1].at) > within {
			delete(s.fights, key)
		}
	}
}

// pattern returns the pattern that the last attempt completes or goes on with, or nil.
func (h *History) pattern(known *suspect, of *attempt, now time.Time, rounds map[streams.Key]round) *Finding {
	goesOn := func(pattern Pattern, written streams.Key) bool {
		return known.found != nil && known.found.Pattern == pattern && known.found.Written == written
	}
	last := of.result.Writes
	switch {
	case known.loop == nil:
	case len(known.loop) == loopRounds && now.Sub(known.loop[0]) <= within:
		return &Finding{Pattern: HotLoop, Written: last[len(last)-1].Key, Rounds: loopRounds, Since: known.loop[0]}
	case goesOn(HotLoop, last[len(last)-1].Key):
		return &Finding{Pattern: HotLoop, Written: last[len(last)-1].Key}
	}
	for key := range rounds {
		made := known.fights[key]
		if goesOn(Fight, key) {
			return &Finding{Pattern: Fight, Written: key, Fields: known.found.Fields, Managers: known.found.Managers}
		}
		if len(made) < fightRounds || now.Sub(made[0].at) > within {
			continue
		}
		if fields, managers, isFight := h.fought(made[:len(made)-1]); isFight { // The echo of the last one may be missing.
			return &Finding{Pattern: Fight, Written: key, Fields: fields, Managers: managers, Rounds: len(made), Since: made[0].at}
		}
		delete(known.fights, key) // Not before as many rounds again: it takes time to compare objects.
	}
	return nil
}

// fought reports whether both sides change the same fields in each round that is known. One change of the cache may have
// both sides in it: then the fields are back where they were, and the round counts for all fields.
func (h *History) fought(rounds []round) (fields, managers []string, isFight bool) {
	changes := changesOf{}
	h.copyChanges(changes, rounds[0].answer.key)
	counted, named := 0, false
	for _, made := range rounds {
		theirs, ours := changes.updateTo(made.theirs), changes.updateTo(made.answer)
		if theirs == nil || ours == nil {
			continue
		}
		counted++
		for _, manager := range managersOf(&theirs.of) {
			managers = append(managers, manager.Name)
		}
		changed, restored := fieldsOf(&theirs.of), fieldsOf(&ours.of)
		if len(changed) == 0 && len(theirs.of.Causes) > 1 || len(restored) == 0 && len(ours.of.Causes) > 1 {
			continue
		}
		both := slices.DeleteFunc(changed, func(path string) bool {
			return isGeneration(path) || !slices.Contains(restored, path) || named && !slices.Contains(fields, path)
		})
		if fields, named = both, true; len(fields) == 0 {
			return nil, nil, false
		}
	}
	slices.Sort(managers)
	return fields, slices.Compact(managers), counted > 1
}

// isGeneration reports whether a path is the number of the spec, which all changes of a spec change.
func isGeneration(path string) bool {
	return strings.TrimPrefix(path, "metadata.") == "generation"
}

// updateTo returns the update to a version, or nil if it is not known.
func (c changesOf) updateTo(of version) *change {
	for _, change := range c[of.key] {
		if exact, _ := change.shows(of.version); exact && change.of.Type == streams.Updated {
			return change
		}
	}
	return nil
}
