package replaytest

import (
	"errors"
	"slices"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/streams"
)

// errGone is returned by Shrink if the incident does not happen in the replay of the whole recording.
var errGone = errors.New("the incident does not happen in a replay of the whole recording; the reconciler is another one, or depends on what a recording does not have: see docs/replay.md")

// Shrink returns a smaller recording in which an incident still happens. It leaves out attempts, then objects, and then
// events, as long as the incident happens without them, and its attempt reads the same. Otherwise the same write could
// have another reason. Shrink takes a replay for each try.
func Shrink(t *testing.T, of *recording.Recording, setup controller.Setup, incident Incident) (*recording.Recording, error) {
	t.Helper()
	var reads []uint64 // of the incident's attempt
	happens := func(records []*recording.Record) bool {
		tried := *of
		tried.Records = records
		var replayed *controller.Replayed
		var err error
		inBubble(t, func(t *testing.T, wait func()) { replayed, err = controller.Replay(t.Context(), &tried, setup, wait) })
		if err != nil || incident.happens(replayed) == "" {
			return false
		}
		if reads == nil {
			reads = incident.reads(replayed)
		}
		return slices.Equal(reads, incident.reads(replayed))
	}
	records := until(of.Records, incident)
	if !happens(records) {
		return nil, errGone
	}
	for _, unitOf := range []func(*recording.Record) any{attemptOf(records, incident), keyOf, eventOf} {
		records = reduce(records, unitOf, happens)
	}
	made := *of
	made.Records = records
	return &made, nil
}

// until returns the records up to the end of the incident's attempt.
func until(records []*recording.Record, incident Incident) []*recording.Record {
	var attempt uint64
	for i, record := range records {
		if record.Start != nil && record.Start.ID == incident.ID {
			attempt = record.Start.Attempt
		}
		if attempt != 0 && record.End != nil && record.End.Attempt == attempt {
			return records[:i+1]
		}
	}
	return records
}

// attemptOf returns a function that returns the attempt of a record, or nil for the records of the incident and of no attempt.
func attemptOf(records []*recording.Record, incident Incident) func(*recording.Record) any {
	kept := map[uint64]bool{0: true}
	for _, record := range records {
		if record.Start != nil && record.Start.ID == incident.ID {
			kept[record.Start.Attempt] = true
		}
	}
	return func(record *recording.Record) any {
		if number := record.Attempt(); !kept[number] {
			return number
		}
		return nil
	}
}

// keyOf returns the key of a record of an object.
func keyOf(record *recording.Record) any {
	if record.Object != nil {
		return record.Object.Key
	}
	return nil
}

// version is a version of an object.
type version struct {
	key     streams.Key
	version string
}

// eventOf returns the version of a record of an object.
func eventOf(record *recording.Record) any {
	if record.Object != nil {
		return version{record.Object.Key, record.Object.ResourceVersion}
	}
	return nil
}

// reduce leaves out the records of as many units as it can, by delta debugging: it tries to leave out half of the units,
// then quarters, and so on down to single ones.
func reduce(records []*recording.Record, unitOf func(*recording.Record) any, happens func([]*recording.Record) bool) []*recording.Record {
	var units []any
	known := map[any]bool{}
	for _, record := range records {
		if unit := unitOf(record); unit != nil && !known[unit] {
			known[unit] = true
			units = append(units, unit)
		}
	}
	for size := len(units); size > 0; size /= 2 {
		for at := 0; at < len(units); {
			gone := map[any]bool{}
			for _, unit := range units[at:min(at+size, len(units))] {
				gone[unit] = true
			}
			if tried := without(records, unitOf, gone); happens(tried) {
				records = tried
				units = append(units[:at:at], units[min(at+size, len(units)):]...)
				continue
			}
			at += size
		}
	}
	return records
}

// without returns the records without some units. The events of objects that are left out go, too.
func without(records []*recording.Record, unitOf func(*recording.Record) any, gone map[any]bool) []*recording.Record {
	var kept []*recording.Record
	for _, record := range records {
		unit := unitOf(record)
		switch {
		case unit != nil && gone[unit]:
			continue
		case len(record.Events) > 0:
			copied := *record
			copied.Events = nil
			for i := range record.Events {
				event := &record.Events[i]
				if event.HasObject && (gone[event.Key] || gone[version{event.Key, event.ResourceVersion}]) {
					continue
				}
				copied.Events = append(copied.Events, *event)
			}
			if len(copied.Events) == 0 {
				continue
			}
			record = &copied
		}
		kept = append(kept, record)
	}
	return kept
}
