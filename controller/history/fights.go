package history

import (
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// Fights returns the results of attempts as they are, and looks for fights in them: see [Fight]. It calls Options.Found
// for each fight that is new. The results must have passed [History.Remember] before, and the changes of the cache
// must have come to [History.OnChanges]. After [History.HotLoops], it leaves alone what is a loop already.
//
//	[a b] [c]  =>  [a b] [c], with Found(b) for a fight that b completes
func (h *History) Fights(results streams.Stream[operators.Result]) streams.Stream[operators.Result] {
	return h.find(results, h.fight)
}

// round is one exchange of a fight.
type round struct {
	at             time.Time
	theirs, answer version
}

// fight returns the fight that a result completes, or nil. The caller holds the lock.
func (h *History) fight(batch *batch, result *operators.Result) *Finding {
	name, now, rounds := targetOf(result), endOf(result), h.roundsOf(batch, result)
	known := h.suspect(name, now)
	switch {
	case known != nil && known.held.fight:
		known.held.fight = false
		return nil
	case known == nil && len(rounds) == 0:
		return nil
	case known == nil:
		known = h.newSuspect(name)
	}
	for key, made := range rounds {
		known.fights[key] = append(known.fights[key], made)
		if excess := len(known.fights[key]) - fightRounds; excess > 0 {
			known.fights[key] = slices.Delete(known.fights[key], 0, excess)
		}
	}
	if known.found != nil && known.found.Pattern == HotLoop && known.found.Last.Equal(now) {
		return nil
	}
	if seen := h.fightOver(known, rounds, now); seen != nil {
		return h.seen(name, known, *seen, now)
	}
	if len(rounds) == 0 {
		known.forgetOld(now)
		h.release(name, known)
	}
	return nil
}

// roundsOf returns a round for each object that an attempt wrote after another client had.
func (h *History) roundsOf(batch *batch, result *operators.Result) (rounds map[streams.Key]round) {
	if len(result.Writes) == 0 {
		return nil
	}
	for _, cause := range result.Causes {
		if cause.Type != streams.Applied || h.wrote(batch, result.Controller, cause) {
			continue
		}
		for _, write := range result.Writes {
			if write.Key == cause.Key && write.ResourceVersion != "" {
				if rounds == nil {
					rounds = map[streams.Key]round{}
				}
				rounds[cause.Key] = round{endOf(result), version{cause.Key, cause.ResourceVersion}, version{write.Key, write.ResourceVersion}}
			}
		}
	}
	return rounds
}

// forgetOld forgets fights without a recent round.
func (s *suspect) forgetOld(now time.Time) {
	for key, made := range s.fights {
		if now.Sub(made[len(made)-1].at) > within {
			delete(s.fights, key)
		}
	}
}

// fightOver returns the fight that one of the rounds completes or goes on with, or nil.
func (h *History) fightOver(known *suspect, rounds map[streams.Key]round, now time.Time) *Finding {
	for key := range rounds {
		made := known.fights[key]
		if known.goesOn(Fight, key) {
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
//
// Where the cache keeps a part of the object, a field of the part may stand for many, as a hash of them does. Then the other
// side must also set the same value in each round: a user who changes one field after the other is no opponent.
func (h *History) fought(rounds []round) (fields, managers []string, isFight bool) {
	changes := changesOf{}
	h.copyChanges(changes, rounds[0].answer.key)
	isPartial := h.options.IsPartial(rounds[0].answer.key.GroupKind)
	var first *change // of the other side, with fields
	counted := 0
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
		var other []string // fields that had another value in the first round
		if first == nil {
			first = theirs
		} else if isPartial {
			other = fieldsOf(&streams.Change{Old: first.of.New, New: theirs.of.New})
		}
		fields = slices.DeleteFunc(changed, func(path string) bool {
			return isGeneration(path) || !slices.Contains(restored, path) || first != theirs && !slices.Contains(fields, path) || slices.Contains(other, path)
		})
		if len(fields) == 0 {
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
