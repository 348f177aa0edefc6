package operators_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"pgregory.net/rapid"
)

// A history is a text of steps that a cluster, its watches and the reader of Debounce go through:
//
//	a b s   source 1 sees a change of the object    c t   source 2 does (t is s, too)
//	A B S   it sees a deletion                      C T   the same
//	x       another a, whose deletion it missed     y     another c
//	o       an old version of a, late               p     of c
//	L       a list of all                           M     the same
//	K       a list without a                        N     without c
//	l       half a list, which e ends               m     half a list, which f ends
//	1       a bookmark                              2     a bookmark
//	!       an error
//	.  _    7 ms pass, 21 ms pass                   ~     the reader stalls or goes on
//
// The events between two steps of the last line form one batch.
const steps = "abscABSCTtxyopLMKNlmef12!.._~..__"

// moment is an event or error that went into Debounce or came out of it.
type moment struct {
	index int // position among the moments of its side
	at    time.Time
	event streams.Event
	err   error
}

// history holds what went in and what came out.
type history struct {
	window    time.Duration
	burst     int
	in, out   []moment
	neverIdle bool // the reader stalled
	flow      operators.StageStats
	excess    string // how the bound was violated during the run
}

// world is the cluster as the sources see it.
type world struct {
	version int
	objects map[string]*object // by source and name
	partial map[string][]streams.Event
}

type object struct {
	source, name string
	uid          int
	alive        bool
	version, old int
}

func newWorld() *world {
	w := &world{objects: map[string]*object{}, partial: map[string][]streams.Event{}}
	for letter, at := range map[string][2]string{"a": {"1", "a"}, "b": {"1", "b"}, "s": {"1", "s"}, "c": {"2", "c"}, "t": {"2", "s"}} {
		w.objects[letter] = &object{source: at[0], name: at[1]}
	}
	return w
}

func (w *world) next() int { w.version += 10; return w.version }

func (o *object) event(sign string, version int) streams.Event {
	return event(fmt.Sprintf("%s>%s%s:u%d@%d", o.source, sign, o.name, o.uid, version))
}

func isOneOf(letter, letters string) bool { return strings.Contains(letters, letter) }

// step returns the events of a step.
func (w *world) step(letter string) []streams.Event {
	lower := strings.ToLower(letter)
	changed := w.objects[lower]
	switch {
	case isOneOf(letter, "xo"):
		changed = w.objects["a"]
	case isOneOf(letter, "yp"):
		changed = w.objects["c"]
	case isOneOf(letter, "LKle1"):
		return w.ofSource("1", letter)
	case isOneOf(letter, "MNmf2"):
		return w.ofSource("2", string("LKle1"[strings.Index("MNmf2", letter)]))
	}
	before := w.giveUp(changed.source)
	switch {
	case isOneOf(letter, "op"):
		if !changed.alive || changed.old > 8 {
			return before
		}
		changed.old++
		return append(before, changed.event("", changed.version-changed.old))
	case letter != lower:
		if !changed.alive {
			return before
		}
		changed.alive = false
		return append(before, changed.event("-", w.next()))
	case !changed.alive || isOneOf(letter, "xy"):
		changed.alive = true
		changed.uid++
	}
	changed.version, changed.old = w.next(), 0
	return append(before, changed.event("", changed.version))
}

// ofSource returns a list or a bookmark.
func (w *world) ofSource(source, letter string) []streams.Event {
	if letter == "e" {
		rest := w.partial[source]
		delete(w.partial, source)
		return rest
	}
	if letter == "1" {
		return append(w.giveUp(source), event(fmt.Sprintf("%s>#%d", source, w.next())))
	}
	if first := w.objects[map[string]string{"1": "a", "2": "c"}[source]]; letter == "K" {
		first.alive = false
	}
	list := []streams.Event{w.listStart(source)}
	for _, letter := range []string{"a", "b", "s", "c", "t"} {
		if listed := w.objects[letter]; listed.source == source && listed.alive {
			list = append(list, listed.event("+", listed.version))
		}
	}
	list = append(list, event(fmt.Sprintf("%s>]%d", source, w.next())))
	delete(w.partial, source)
	if letter == "l" {
		half := len(list) / 2
		w.partial[source] = list[half:]
		list = list[:half]
	}
	return list
}

// listStart starts a list. Every third version of the world makes it a Reset.
func (w *world) listStart(source string) streams.Event {
	version := w.next()
	return event(fmt.Sprintf("%s>%c%d", source, "{[["[version%3], version))
}

// giveUp starts a list anew that has not ended, before its source emits anything else.
func (w *world) giveUp(source string) []streams.Event {
	if _, partial := w.partial[source]; !partial {
		return nil
	}
	return w.ofSource(source, "L")
}

// live runs the history that a text describes.
func live(t *testing.T, text string, window time.Duration, burst int) *history {
	h := &history{window: window, burst: burst}
	in := newFeed[streams.Event]()
	items := operators.Debounce(in.stream(), operators.DebounceOptions{Window: window, Burst: burst, Stats: &h.flow}).Observe(t.Context())
	var stall atomic.Pointer[chan struct{}]
	reader := parallel(t, func(context.Context) {
		for item := range items {
			batch, err := streams.Values[streams.Event](item)
			if err != nil {
				h.out = append(h.out, moment{len(h.out), time.Now(), streams.Event{}, err})
			}
			for _, event := range batch {
				h.out = append(h.out, moment{len(h.out), time.Now(), event, nil})
			}
			if until := stall.Load(); until != nil {
				<-*until
			}
		}
	})
	goOn := func() {
		if until := stall.Swap(nil); until != nil {
			close(*until)
		}
	}
	w := newWorld()
	var batch []streams.Event
	send := func() {
		if len(batch) > 0 {
			in <- batch
			batch = nil
		}
		synctest.Wait()
		h.checkBound()
	}
	for _, letter := range strings.Split(text+"ef", "") { // The last list is ended.
		switch letter {
		case ".", "_", "~", "!":
			send()
		}
		switch letter {
		case ".":
			pass(7 * time.Millisecond)
		case "_":
			pass(21 * time.Millisecond)
		case "!":
			err := errors.New("error " + strconv.Itoa(len(h.in)))
			h.in = append(h.in, moment{len(h.in), time.Now(), streams.Event{}, err})
			in <- err
		case "~":
			h.neverIdle = true
			until := make(chan struct{})
			if !stall.CompareAndSwap(nil, &until) {
				goOn()
			}
		default:
			for _, event := range w.step(letter) {
				h.in = append(h.in, moment{len(h.in), time.Now(), event, nil})
				batch = append(batch, event)
			}
		}
	}
	send()
	close(in)
	goOn()
	_ = reader.Wait()
	return h
}

// checkBound checks that the number of objects bounds what waits: one state for each object, the
// latest list and one bookmark of each source, and the errors. All but the errors count twice,
// because the next batch to go out is held too.
func (h *history) checkBound() {
	held := map[string]bool{}
	errs := 0
	for _, in := range h.in {
		switch {
		case in.err != nil:
			errs++
		case in.event.Object != nil:
			held[in.event.Source+string(in.event.Type)+in.event.Key.Name+string(in.event.Object.GetUID())] = true
		default:
			held[in.event.Source+in.event.Type.String()] = true
		}
	}
	if waiting := int(h.flow.Waiting.Load()); waiting > 2*len(held)+errs {
		h.excess = fmt.Sprintf("%d events wait, of %d objects, lists and bookmarks", waiting, len(held))
	}
}

// checkHistory runs a history and checks it against the model.
func checkHistory(t *testing.T, text string) error {
	var err error
	for _, of := range []struct {
		window time.Duration
		burst  int
	}{{0, 1}, {20 * time.Millisecond, 1}, {20 * time.Millisecond, 2}, {20 * time.Millisecond, 3}} {
		synctest.Test(t, func(t *testing.T) {
			if wrong := live(t, text, of.window, of.burst).check(); wrong != nil && err == nil {
				err = fmt.Errorf("history %q, window %v, burst %d: %w", text, of.window, of.burst, wrong)
			}
		})
	}
	return err
}

func TestWhateverHappensDebounceKeepsItsPromises(t *testing.T) {
	letters := rapid.SampledFrom(strings.Split(steps, ""))
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(letters, 0, 150).Draw(rt, "history"), "")
		if err := checkHistory(t, text); err != nil {
			rt.Fatal(err)
		}
	})
}

func FuzzDebounceKeepsItsPromises(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		var known strings.Builder
		for _, char := range []byte(text[:min(len(text), 200)]) {
			if strings.Contains(steps, string(char)) {
				known.WriteByte(char)
			} else {
				known.WriteByte(steps[int(char)%len(steps)])
			}
		}
		if err := checkHistory(t, known.String()); err != nil {
			t.Fatal(err)
		}
	})
}
