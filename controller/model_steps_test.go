package controller_test

import (
	"strings"
	"testing/synctest"
	"time"
)

// A schedule is a text of steps, one character each. The steps drive a model of a cluster, its
// sources, and the readers and reconcilers of one real pipeline. The constants below name the
// steps, except for these:
//
//	a ... l   create or change a thing: a to d are of the first kind, e to h of the second, i to l of the third
//	A ... L   delete it
//	1 2 3     select the source of this kind for the steps of sources that follow
//
// The stored fuzz inputs consist of these characters, so a step keeps its character.
const (
	// Prefixes of the next write.
	stepHundred        = '*' // the next change or bookmark happens 100 times; changes alternate between two things
	stepRecreate       = '^' // the next change is a deletion and a creation
	stepRecreateMissed = '!' // the same, and no source reports the deletion
	stepOwn            = '+' // the next change or deletion is an own write, answered at once
	stepOwnLate        = '&' // the same, answered at the next stepAnswer

	stepAnswer = ';' // the late answers arrive, the last one first

	// Steps of the selected source.
	stepDisconnect       = '-' // it loses the server
	stepReconnect        = '=' // it continues where it was, or lists if it cannot
	stepReconnectRepeat  = '<' // the same, and it repeats its last three events
	stepRepeatDisconnect = '>' // it repeats one event, the third last, and loses the server
	stepList             = '[' // it sends a list
	stepListHalf         = '(' // it sends the first half of a list
	stepListRest         = ')' // it sends the second half
	stepListOld          = '@' // it sends a list that is two events old, and the events since
	stepBookmark         = '#' // it sends a bookmark
	stepError            = '?' // it sends an error

	stepSend  = '/' // all sources send what is pending, and readers read while the pipeline works
	stepRest  = ',' // all sources send what is pending, and the pipeline comes to rest
	stepShort = '.' // the same, and 7 ms pass
	stepLong  = '_' // the same, and 25 ms pass

	// Steps that stall a reader, or let it continue.
	stepStallEvents   = '~'
	stepStallRequests = '%'
	stepStallResults  = '$'

	// Plans of the next reconcile.
	stepFail  = 'x' // it fails
	stepPanic = 'p' // it panics
	stepSlow  = 't' // it takes 10 ms

	stepEnd = 'X' // the context ends
)

const (
	modelThings   = "abcdefghijkl"
	modelPrefixes = "*^!+&"

	// modelSteps holds all steps. Fuzz inputs select unknown steps by their index, so the order stays.
	modelSteps = "abcdefghijklABCDEFGHIJKL*^!+&;123-=<>[()@#?/,._~%$xptX"
)

// play plays the steps. It reports whether the context ended before the last one.
func (l *lived) play(text string) (cut bool) {
	for _, step := range text {
		lower := strings.ToLower(string(step))
		switch {
		case strings.Contains(modelThings, lower):
			thing := l.world.things[strings.Index(modelThings, lower)]
			l.write(thing, string(step) != lower)
			l.prefixes = ""
		case strings.ContainsRune(modelPrefixes, step):
			l.prefixes += string(step)
		case step == stepEnd:
			return true
		default:
			l.step(step)
		}
	}
	return false
}

func (l *lived) step(step rune) {
	switch step {
	case stepAnswer:
		l.answer()
	case stepStallEvents:
		l.send()
		l.events.toggle()
	case stepStallRequests:
		l.send()
		l.requests.toggle()
	case stepStallResults:
		l.send()
		l.results.toggle()
	case stepSend:
		l.send()
		l.readAll()
	case stepRest:
		l.rest()
	case stepShort:
		l.rest()
		<-time.After(7 * time.Millisecond)
	case stepLong:
		l.rest()
		<-time.After(25 * time.Millisecond)
	case stepFail, stepPanic, stepSlow:
		l.mu.Lock()
		l.plans = append(l.plans, step)
		l.mu.Unlock()
		l.failing = l.failing || step != stepSlow
	case stepError:
		l.send()
		l.put(l.selected.kind, errPlanned)
		l.sent++
	default:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.source(step)
	}
}

func (l *lived) source(step rune) {
	switch step {
	case '1', '2', '3':
		l.selected = l.world.sources[step-'1']
	case stepDisconnect:
		l.selected.connected = false
	case stepReconnect:
		l.selected.resume(0)
	case stepReconnectRepeat:
		l.selected.resume(3)
	case stepList:
		l.selected.list()
	case stepListHalf:
		l.selected.begin()
	case stepListRest:
		l.selected.finish()
	case stepListOld:
		l.selected.listOld(2)
	case stepRepeatDisconnect:
		l.selected.repeat()
	case stepBookmark:
		for range l.times() {
			l.selected.bookmark()
		}
		l.prefixes = ""
	}
}

// write changes or deletes a thing. Its source emits the event at once if it is connected.
func (l *lived) write(thing *thing, deletion bool) {
	own := l.prefixed(stepOwn) || l.prefixed(stepOwnLate)
	shown := l.observe(thing)
	l.mu.Lock()
	before := thing.now()
	switch missed := l.prefixed(stepRecreateMissed); {
	case deletion:
		l.world.remove(thing, false)
	case missed || l.prefixed(stepRecreate):
		l.world.remove(thing, missed)
		l.world.change(thing)
	default:
		for i := range l.times() {
			if i%2 == 1 {
				l.world.change(l.world.neighbour(thing))
				continue
			}
			l.world.change(thing)
		}
	}
	after, place := thing.now(), len(thing.facts)-1
	l.world.sources[thing.kind].catchUp()
	l.mu.Unlock()
	store := l.stores[thing.kind]
	answered := func() { store.RecordWrite(after, time.Time{}, time.Time{}); l.passed(thing, place) }
	if deletion {
		answered = func() {
			// Readers may still see a state that they have not seen yet.
			shown = l.observe(thing)
			store.RecordDeletion(thing.key.NamespacedName, before.GetUID(), time.Time{})
			if shown != nil && shown.GetUID() == before.GetUID() {
				l.passed(thing, place)
			}
		}
	}
	switch {
	case !own || (deletion && before == nil):
	case l.prefixed(stepOwnLate):
		l.late = append(l.late, answered)
	default:
		answered()
	}
}

// prefixed reports whether the next write has a prefix.
func (l *lived) prefixed(step rune) bool { return strings.ContainsRune(l.prefixes, step) }

// times returns how often the next step happens.
func (l *lived) times() int {
	if l.prefixed(stepHundred) {
		return 100
	}
	return 1
}

func (l *lived) answer() {
	for i := len(l.late) - 1; i >= 0; i-- {
		l.late[i]()
	}
	l.late = nil
}

// put hands a batch of events or an error to the source of a kind.
func (l *lived) put(kind int, item any) {
	select {
	case l.feeds[kind] <- item:
	case <-l.ctx.Done():
	}
}

// send sends the pending events of each source as one batch.
func (l *lived) send() {
	for kind, source := range l.world.sources {
		l.mu.Lock()
		batch := source.outbox
		source.outbox = nil
		l.mu.Unlock()
		if len(batch) > 0 {
			l.put(kind, batch)
		}
	}
}

// rest sends the pending events, waits until all goroutines are blocked, and checks the promises.
func (l *lived) rest() {
	l.send()
	synctest.Wait()
	l.checkRest()
}

// conclude has every source emit all events, and ends the sources.
func (l *lived) conclude() {
	l.openGates()
	l.answer()
	l.mu.Lock()
	for _, source := range l.world.sources {
		if source.rest != nil {
			source.finish()
		} else {
			source.resume(0)
		}
		if source.behind {
			source.bookmark() // Without it, only the end of the source would release what waits.
		}
	}
	l.mu.Unlock()
	l.send()
	if l.failing { // Retries that are pending at the end are dropped.
		<-time.After(time.Hour)
		l.rest()
	}
	for _, feed := range l.feeds {
		close(feed)
	}
}

func (l *lived) openGates() {
	l.events.open()
	l.requests.open()
	l.results.open()
}
