package controller_test

import (
	"strings"
	"testing/synctest"
	"time"
)

// A schedule is a text of steps that a cluster, its sources, the readers and the
// reconcilers of one pipeline go through:
//
//	a ... l   a thing is created or changed: a to d of the first kind, e to h, i to l
//	A ... L   it is deleted
//	* ^ !     the next change or bookmark is 100 of them, of two things in turn; a deletion
//	          and a creation; the same, and no source tells of the deletion
//	+ &       the next change or deletion is our own, and answered at once; late
//	;         the late answers come, the last one first
//	1 2 3     the following steps are of the source of this kind:
//	- = < >   it is cut off; it goes on; it goes on and repeats what it told last; it repeats
//	          one event and is cut off
//	[ ( ) @   it lists; half; the rest of it; an old state, and what happened since
//	# ?       it sends a bookmark; an error
//	/ ,       what there is to tell is sent; and all come to rest
//	. _       7 ms pass; 25 ms pass
//	~ % $     the reader of events, of requests, of results stalls, or goes on
//	x p t     the next reconcile fails; panics; takes 10 ms
//	X         the context ends
const (
	modelThings   = "abcdefghijkl"
	modelPrefixes = "*^!+&"
	modelSteps    = "abcdefghijklABCDEFGHIJKL*^!+&;123-=<>[()@#?/,._~%$xptX"
)

// play goes through the steps. It is true if the context ended before the last one.
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
		case step == 'X':
			return true
		default:
			l.step(step)
		}
	}
	return false
}

func (l *lived) step(step rune) {
	switch step {
	case ';':
		l.answer()
	case '~':
		l.send()
		l.events.toggle()
	case '%':
		l.send()
		l.requests.toggle()
	case '$':
		l.send()
		l.results.toggle()
	case '/':
		l.send()
		l.readAll() // While the pipeline works.
	case ',':
		l.rest()
	case '.':
		l.rest()
		<-time.After(7 * time.Millisecond)
	case '_':
		l.rest()
		<-time.After(25 * time.Millisecond)
	case 'x', 'p', 't':
		l.mu.Lock()
		l.plans = append(l.plans, step)
		l.mu.Unlock()
		l.failing = l.failing || step != 't'
	case '?':
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
	case '-':
		l.selected.connected = false
	case '=':
		l.selected.resume(0)
	case '<':
		l.selected.resume(3)
	case '[':
		l.selected.list()
	case '(':
		l.selected.begin()
	case ')':
		l.selected.finish()
	case '@':
		l.selected.listOld(2)
	case '>':
		l.selected.repeat()
	case '#':
		for range l.times() {
			l.selected.bookmark()
		}
		l.prefixes = ""
	}
}

// write changes or deletes a thing, and its source tells if it is connected.
func (l *lived) write(thing *thing, deletion bool) {
	own := strings.ContainsAny(l.prefixes, "+&")
	shown := l.observe(thing)
	l.mu.Lock()
	before := thing.now()
	switch missed := strings.Contains(l.prefixes, "!"); {
	case deletion:
		l.world.remove(thing, false)
	case missed || strings.Contains(l.prefixes, "^"):
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
	answered := func() { store.RecordWrite(after, time.Time{}); l.passed(thing, place) }
	if deletion {
		answered = func() {
			// What readers have not seen yet they may still see.
			shown = l.observe(thing)
			store.RecordDeletion(thing.key.NamespacedName, before.GetUID(), time.Time{})
			if shown != nil && shown.GetUID() == before.GetUID() {
				l.passed(thing, place)
			}
		}
	}
	switch {
	case !own || (deletion && before == nil):
	case strings.Contains(l.prefixes, "&"):
		l.late = append(l.late, answered)
	default:
		answered()
	}
}

// times is how often the next step happens.
func (l *lived) times() int {
	if strings.Contains(l.prefixes, "*") {
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

// put hands a batch or an error to a source.
func (l *lived) put(kind int, item any) {
	select {
	case l.feeds[kind] <- item:
	case <-l.ctx.Done():
	}
}

// send sends what there is to tell, each source a batch.
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

// rest sends, and waits until nothing moves.
func (l *lived) rest() {
	l.send()
	synctest.Wait()
	l.checkRest()
}

// conclude lets every source tell all, and ends them.
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
			source.bookmark() // Otherwise what waits is let go by the end alone.
		}
	}
	l.mu.Unlock()
	l.send()
	if l.failing { // What is to be tried again is not, after the end.
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
