package operators_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// check checks all promises of Debounce, against the simplest model of them.
func (h *history) check() error {
	if h.excess != "" {
		return fmt.Errorf("%s", h.excess)
	}
	for _, check := range []func() error{h.checkErrors, h.checkKeys, h.checkBarriers, h.checkLists, h.checkResets, h.checkTimes, h.checkState, h.checkFlow} {
		if err := check(); err != nil {
			return fmt.Errorf("%w\nout: %s", err, h.written())
		}
	}
	return nil
}

func (h *history) written() (all []string) {
	for _, out := range h.out {
		if out.err != nil {
			all = append(all, "!"+out.err.Error())
		} else {
			all = append(all, written(out.event))
		}
	}
	return all
}

// id returns the identity of an event: no two events of one source have the same version, except
// Listed ones.
func id(source, version string) string { return source + "@" + version }

func (h *history) byID() map[string]moment {
	found := map[string]moment{}
	for _, in := range h.in {
		if in.err == nil && in.event.Type != streams.Listed {
			found[id(in.event.Source, in.event.ResourceVersion)] = in
		}
	}
	return found
}

// covered returns the indexes of the events that an event stands for. all is false if some of them
// were left out.
func (h *history) covered(event streams.Event, known map[string]moment) (indexes []int, all bool) {
	all = true
	for _, cause := range event.Causes() {
		if cause == (streams.Cause{}) {
			all = false
			continue
		}
		indexes = append(indexes, known[id(event.Source, cause.ResourceVersion)].index)
	}
	return indexes, all
}

func isKeyed(event streams.Event) bool {
	return event.Type == streams.Applied || event.Type == streams.Deleted
}

// superseded reports whether a list of the source started after an event, and before another index.
func (h *history) superseded(source string, after, before int) bool {
	for _, in := range h.in[after+1 : before] {
		if in.event.Type == streams.ListStart && in.event.Source == source {
			return true
		}
	}
	return false
}

// checkErrors checks that all errors come, in order.
func (h *history) checkErrors() error {
	errs := func(moments []moment) (found []error) {
		for _, m := range moments {
			if m.err != nil {
				found = append(found, m.err)
			}
		}
		return found
	}
	if in, out := errs(h.in), errs(h.out); !slices.Equal(in, out) {
		return fmt.Errorf("of the errors %v came %v", in, out)
	}
	return nil
}

// checkKeys checks the events of one source and key:
//
//   - They keep their order.
//   - Each comes once, itself or as a cause, unless a list replaced it.
//   - A deletion always comes itself, and so does the last event of each object.
func (h *history) checkKeys() error {
	known := h.byID()
	last := map[string]int{}       // by source and key: the latest index that came
	came := map[int]bool{}         // by index: itself or as a cause
	itself := map[int]bool{}       // by index
	forgetful := map[string]bool{} // by source and key: some causes were left out
	for _, out := range h.out {
		if !isKeyed(out.event) {
			continue
		}
		said := out.event.Source + out.event.Key.String()
		indexes, all := h.covered(out.event, known)
		if !all {
			forgetful[said] = true
		}
		if before, followed := last[said]; followed && slices.Min(indexes) <= before {
			return fmt.Errorf("%s comes too late", written(out.event))
		}
		last[said] = slices.Max(indexes)
		for _, index := range indexes {
			if came[index] {
				return fmt.Errorf("%s comes twice", written(h.in[index].event))
			}
			came[index] = true
		}
		itself[known[id(out.event.Source, out.event.ResourceVersion)].index] = true
	}
	newest := map[string]moment{}
	for _, in := range h.in {
		if in.err != nil || !isKeyed(in.event) {
			continue
		}
		said := in.event.Source + in.event.Key.String()
		if in.event.Type == streams.Deleted && !itself[in.index] {
			return fmt.Errorf("the deletion %s is lost", written(in.event))
		}
		if !came[in.index] && !forgetful[said] && !h.superseded(in.event.Source, in.index, len(h.in)) {
			return fmt.Errorf("%s is lost", written(in.event))
		}
		object := said + string(in.event.Object.GetUID())
		if !streams.IsOlderVersion(in.event.ResourceVersion, newest[object].event.ResourceVersion) {
			newest[object] = in
		}
	}
	for _, in := range newest {
		if !itself[in.index] && !h.superseded(in.event.Source, in.index, len(h.in)) {
			return fmt.Errorf("%s, the last state of its object, is lost", written(in.event))
		}
	}
	return nil
}

// checkBarriers checks that no event crosses a list of its source, and that no bookmark overtakes.
func (h *history) checkBarriers() error {
	known := h.byID()
	latest := map[string]int{}  // by source: the latest index that came
	barrier := map[string]int{} // by source: later output must have a higher index
	came := map[int]bool{}
	for _, out := range h.out {
		if out.err != nil || out.event.Type == streams.Listed {
			continue
		}
		source := out.event.Source
		indexes, _ := h.covered(out.event, known)
		for _, index := range indexes {
			came[index] = true
		}
		index := known[id(source, out.event.ResourceVersion)].index
		if floor, listed := barrier[source]; listed && slices.Min(indexes) <= floor {
			return fmt.Errorf("%s comes behind a list that is later", written(out.event))
		}
		if out.event.Type == streams.ListStart {
			if latest[source] > index {
				return fmt.Errorf("something has overtaken the list %s", written(out.event))
			}
			barrier[source] = index
		}
		latest[source] = max(latest[source], slices.Max(indexes))
		if out.event.Type != streams.Bookmark {
			continue
		}
		for _, in := range h.in[:index] {
			if in.err == nil && isKeyed(in.event) && in.event.Source == source && !came[in.index] && !h.superseded(source, in.index, index) && !h.leftOut(in) {
				return fmt.Errorf("the bookmark %s has overtaken %s", written(out.event), written(in.event))
			}
		}
	}
	for i, in := range h.in {
		if in.event.Type == streams.Bookmark && !came[i] && !h.bookmarkFollows(in) {
			return fmt.Errorf("the bookmark %s is lost", written(in.event))
		}
	}
	return nil
}

// leftOut reports whether an event may be missing because an event has room for a limited number of
// causes.
func (h *history) leftOut(in moment) bool {
	for _, out := range h.out {
		if out.event.Key == in.event.Key && slices.Contains(out.event.Causes(), streams.Cause{}) {
			return true
		}
	}
	return false
}

// bookmarkFollows reports whether a later bookmark or list makes a bookmark superfluous.
func (h *history) bookmarkFollows(bookmark moment) bool {
	return slices.ContainsFunc(h.in[bookmark.index+1:], func(in moment) bool {
		return in.event.Source == bookmark.event.Source && (in.event.Type == streams.Bookmark || in.event.Type == streams.ListStart)
	})
}

// listsOf returns the lists of a source as they are written, including lists that were given up.
func listsOf(source string, moments []moment) (lists [][]string, err error) {
	open := false
	for _, m := range moments {
		if m.err != nil || m.event.Source != source {
			continue
		}
		switch m.event.Type {
		case streams.ListStart:
			start := m.event
			start.Reset = false // See checkResets.
			lists = append(lists, []string{written(start)})
			open = true
		case streams.Listed, streams.ListEnd:
			if !open {
				return nil, fmt.Errorf("%s is in no list", written(m.event))
			}
			lists[len(lists)-1] = append(lists[len(lists)-1], written(m.event))
			open = m.event.Type != streams.ListEnd
		default:
			open = false // The list was given up: further Listed events would be in no list.
		}
	}
	return lists, nil
}

// checkLists checks that each list comes in one piece, and that the last one comes.
func (h *history) checkLists() error {
	for _, source := range []string{"1", "2"} {
		in, _ := listsOf(source, h.in)
		out, err := listsOf(source, h.out)
		if err != nil {
			return err
		}
		if len(in) > 0 && (len(out) == 0 || !slices.Equal(in[len(in)-1], out[len(out)-1])) {
			return fmt.Errorf("the last list of source %s, %v, is not the last of %v", source, in[len(in)-1], out)
		}
		for _, list := range out {
			i := slices.IndexFunc(in, func(of []string) bool { return of[0] == list[0] })
			if i < 0 || len(list) > len(in[i]) || !slices.Equal(in[i][:len(list)], list) {
				return fmt.Errorf("the list %v is none of %v", list, in)
			}
		}
	}
	return nil
}

// checkResets checks that a list is a Reset exactly if it is one in the input, or replaces one.
func (h *history) checkResets() error {
	known, last := h.byID(), map[string]int{}
	for _, out := range h.out {
		if out.err != nil || out.event.Type != streams.ListStart {
			continue
		}
		source := out.event.Source
		index, want := known[id(source, out.event.ResourceVersion)].index, false
		for _, in := range h.in[last[source] : index+1] {
			want = want || in.event.Reset && in.event.Source == source
		}
		if out.event.Reset != want {
			return fmt.Errorf("%s comes, and whether it is a Reset is to be %v", written(out.event), want)
		}
		last[source] = index + 1
	}
	return nil
}

// checkTimes checks the waits of each key:
//
//   - An event of a quiet key does not wait.
//   - No event waits beyond the end of the window that the key's preceding output opened.
//   - A window lets no more than the burst pass.
//
// Two windows of a key may touch. So all states of two bursts but one may come within the length of
// one window.
func (h *history) checkTimes() error {
	if h.neverIdle {
		return nil
	}
	known := h.byID()
	before := map[string]moment{}
	times := map[string][]time.Time{}
	for _, out := range h.out {
		if out.err != nil || !isKeyed(out.event) {
			continue
		}
		said := out.event.Source + out.event.Key.String()
		indexes, all := h.covered(out.event, known)
		first := h.in[slices.Min(indexes)]
		waited := out.at.Sub(first.at)
		if waited > h.window {
			return fmt.Errorf("%s waited %v", written(out.event), waited)
		}
		previous, followed := before[said]
		since := out.at.Sub(previous.at)
		if !followed || since > 0 {
			times[said] = append(times[said], out.at)
		}
		switch {
		case !followed || h.isCutShort(out):
		case waited > 0 && since > h.window:
			return fmt.Errorf("%s waited until %v after the one before it", written(out.event), since)
		default:
			came, many := times[said], 2*h.burst-1
			if len(came) > many && out.at.Sub(came[len(came)-1-many]) < h.window*15/16 {
				return fmt.Errorf("%s came %v after the one %d before it", written(out.event), out.at.Sub(came[len(came)-1-many]), many)
			}
		}
		quiet := !followed || first.at.Sub(previous.at) > h.window
		for _, in := range h.in[:first.index] { // Nothing came out for events that a list replaced.
			quiet = quiet && (in.event.Source+in.event.Key.String() != said || first.at.Sub(in.at) > h.window)
		}
		if quiet && all && waited > 0 {
			return fmt.Errorf("%s waited %v, although its key was quiet", written(out.event), waited)
		}
		before[said] = out
	}
	return nil
}

// isCutShort reports whether something other than the key's own output may begin or end a window of
// the key: a mark or a list of its source, or the end of the input.
func (h *history) isCutShort(out moment) bool {
	end := h.in[len(h.in)-1].at
	return !out.at.Before(end) || slices.ContainsFunc(h.in, func(in moment) bool {
		return in.err == nil && in.event.Source == out.event.Source && !isKeyed(in.event) && !in.at.After(out.at) && out.at.Sub(in.at) <= 2*h.window
	})
}

// state returns the state that a reader builds from events: the version of each object, by source
// and name.
func state(moments []moment) map[string]string {
	now := map[string]streams.Event{}
	listed := map[string]streams.Event{}
	graves := map[string]bool{}
	for _, m := range moments {
		if m.err != nil {
			continue
		}
		e := m.event
		name := e.Source + e.Key.Name
		held := now[name]
		switch e.Type {
		case streams.ListStart:
			maps.DeleteFunc(listed, func(_ string, listed streams.Event) bool { return listed.Source == e.Source })
		case streams.Listed:
			listed[name] = e
		case streams.ListEnd:
			maps.DeleteFunc(now, func(_ string, held streams.Event) bool { return held.Source == e.Source })
			for other, listed := range listed {
				if listed.Source == e.Source {
					now[other] = listed
				}
			}
		case streams.Applied:
			same := held.Object != nil && held.Object.GetUID() == e.Object.GetUID()
			if !graves[name+string(e.Object.GetUID())] && (!same || !streams.IsOlderVersion(e.ResourceVersion, held.ResourceVersion)) {
				now[name] = e
			}
		case streams.Deleted:
			graves[name+string(e.Object.GetUID())] = true
			if held.Object != nil && !streams.IsOlderVersion(e.ResourceVersion, held.ResourceVersion) {
				delete(now, name) // Also an object of another uid, whose own deletion was missed.
			}
		}
	}
	versions := map[string]string{}
	for name, held := range now {
		versions[name] = string(held.Object.GetUID()) + "@" + held.ResourceVersion
	}
	return versions
}

// checkState checks that a reader of the output ends in the same state as a reader of the input.
func (h *history) checkState() error {
	if in, out := state(h.in), state(h.out); fmt.Sprint(in) != fmt.Sprint(out) {
		return fmt.Errorf("the state is %v, and was made %v", in, out)
	}
	return nil
}

// checkFlow checks that the counters agree with the input and the output, and that nothing waits.
func (h *history) checkFlow() error {
	events := func(moments []moment) (n int64) {
		for _, m := range moments {
			if m.err == nil {
				n++
			}
		}
		return n
	}
	if in, out, waiting := h.flow.In.Load(), h.flow.Out.Load(), h.flow.Waiting.Load(); in != events(h.in) || out != events(h.out) || waiting != 0 {
		return fmt.Errorf("the counters say in %d, out %d, waiting %d of %d and %d", in, out, waiting, events(h.in), events(h.out))
	}
	return nil
}
