package page

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/streams"
)

// The bounds of one answer with items.
const (
	defaultPastItems = 2000
	maxPastItems     = 5000
	maxPastWindow    = 15 * time.Minute // three times the longest window of the page
)

// pastItems is what a recording has of a time, oldest first.
type pastItems struct {
	Events   []event   `json:"events"`
	Changes  []change  `json:"changes"`
	Attempts []attempt `json:"attempts"`
	Next     string    `json:"next,omitempty"` // the parameter after of the next question; empty at the end
}

// place is an item's place in time. Items of one millisecond keep the order of the files.
type place struct {
	ms     int64
	number int
}

// placed is an item with its place. One of its pointers is set.
type placed struct {
	place
	event   *event
	change  *change
	attempt *attempt
}

// items answers with the items from a time to another one. after is the Next of the answer before.
func (p *Past) items(ctx context.Context, asked question) (any, error) {
	from, err := asked.time("from")
	if err != nil {
		return nil, err
	}
	to, err := asked.time("to")
	if err != nil {
		return nil, err
	}
	if from.IsZero() || !to.After(from) || to.Sub(from) > maxPastWindow {
		return nil, &badQuestion{http.StatusBadRequest, fmt.Sprintf("from and to must be %v apart at most, in this order", maxPastWindow)}
	}
	limit, given := defaultPastItems, asked.Get("limit")
	if given != "" {
		if limit, err = strconv.Atoi(given); err != nil || limit < 1 || limit > maxPastItems {
			return nil, &badQuestion{http.StatusBadRequest, fmt.Sprintf("limit is %.40q; allowed is 1 to %d", given, maxPastItems)}
		}
	}
	found, began := gathered{limit: limit, seen: map[int64]int{}}, from
	if text := asked.Get("after"); text != "" {
		if found.after, err = placeOf(text); err != nil {
			return nil, err
		}
		from = time.UnixMilli(max(from.UnixMilli(), found.after.ms))
	}
	found.from, found.to = from.UnixMilli(), to.UnixMilli()
	of := newAttempts(p.read)
	// An attempt may have begun long before it ended.
	err = recording.Scan(ctx, p.path, began.Add(-time.Minute), to, func(record *recording.Record) error {
		found.take(record)
		if ended := of.take(record); ended != nil {
			made := attemptItem(&ended.result, record.Time())
			if made.ID = ended.id; ended.result.Queued == 0 {
				made.Queued = nil
			}
			found.add(placed{place: place{ms: record.Time().UnixMilli()}, attempt: &made})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found.answer(), nil
}

func placeOf(text string) (of place, err error) {
	ms, number, _ := strings.Cut(text, ".")
	if of.ms, err = strconv.ParseInt(ms, 10, 64); err == nil {
		of.number, err = strconv.Atoi(number)
	}
	if err != nil || of.number < 1 || of.ms < 1 {
		return of, &badQuestion{http.StatusBadRequest, fmt.Sprintf("after is %.40q; give next of the answer before", text)}
	}
	return of, nil
}

// gathered keeps the first items after a place, and a bounded number of others.
type gathered struct {
	from, to int64
	after    place
	limit    int

	kept []placed
	seen map[int64]int // how many items each of the kept milliseconds has
	cut  bool          // there are more
}

// take takes in a batch of events.
func (g *gathered) take(record *recording.Record) {
	if at := record.Time().UnixMilli(); at < g.from || at >= g.to {
		return
	}
	for i := range record.Events {
		each := &record.Events[i]
		of := streams.Event{Type: each.Type, Key: each.Key, ResourceVersion: each.ResourceVersion, Received: time.Unix(0, each.Received), Coalesced: each.Coalesced}
		if each.HasObject {
			made := eventItem(&of, record.Time())
			g.add(placed{place: place{ms: made.Time}, event: &made})
		}
		if each.Change != 0 {
			made := changeItem(&streams.Change{Type: each.Change, Key: each.Key}, record.Time())
			made.Version = each.ResourceVersion
			g.add(placed{place: place{ms: made.Time}, change: &made})
		}
	}
	for _, key := range record.Removed {
		made := changeItem(&streams.Change{Type: streams.Removed, Key: key}, record.Time())
		g.add(placed{place: place{ms: made.Time}, change: &made})
	}
}

// add adds an item, unless it is out of the window or before the place.
func (g *gathered) add(item placed) {
	if item.ms < g.from || item.ms >= g.to || g.cut && item.ms > g.kept[g.limit-1].ms {
		return
	}
	g.seen[item.ms]++
	if item.number = g.seen[item.ms]; compare(item.place, g.after) <= 0 {
		return
	}
	if g.kept = append(g.kept, item); len(g.kept) >= 2*g.limit+1 {
		g.trim()
	}
}

func compare(a, b place) int { return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.number, b.number)) }

// trim keeps the first items alone.
func (g *gathered) trim() {
	slices.SortFunc(g.kept, func(a, b placed) int { return compare(a.place, b.place) })
	if len(g.kept) > g.limit {
		clear(g.kept[g.limit:])
		g.kept, g.cut = g.kept[:g.limit], true
		last := g.kept[g.limit-1].ms
		maps.DeleteFunc(g.seen, func(ms int64, _ int) bool { return ms > last })
	}
}

func (g *gathered) answer() pastItems {
	g.trim()
	made := pastItems{Events: []event{}, Changes: []change{}, Attempts: []attempt{}}
	for _, item := range g.kept {
		switch {
		case item.event != nil:
			made.Events = append(made.Events, *item.event)
		case item.change != nil:
			made.Changes = append(made.Changes, *item.change)
		default:
			made.Attempts = append(made.Attempts, *item.attempt)
		}
	}
	if g.cut {
		last := g.kept[len(g.kept)-1]
		made.Next = fmt.Sprintf("%d.%d", last.ms, last.number)
	}
	return made
}
