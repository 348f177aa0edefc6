package cache_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/bellerophon-io/bellerophon/streams"
	"pgregory.net/rapid"
)

// Foreign and own writes hit a server. A watch with a selector reports them late, in order of each
// key only. It repeats itself, breaks and relists. Answers to own writes come late and in any
// order. After each step, all reads match the model.
func TestEveryReadIsThatOfTheModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := newModel(t)
		m.apply(r, list("", "1"))
		m.version, m.complete, m.seen = 1, 1, 1
		m.history = append(m.history, map[string]pod{})
		r.Repeat(map[string]func(*rapid.T){
			"":              m.check,
			"foreign write": func(r *rapid.T) { m.change(r) },
			"own write":     func(r *rapid.T) { m.answers = append(m.answers, m.change(r)) },
			"answer": func(r *rapid.T) {
				if len(m.answers) == 0 {
					r.Skip()
				}
				i := rapid.IntRange(0, len(m.answers)-1).Draw(r, "answer")
				answer := m.answers[i]
				m.answers = slices.Delete(m.answers, i, i+1)
				m.answered(answer)
			},
			"event": func(r *rapid.T) {
				key := rapid.SampledFrom(modelKeys).Draw(r, "key")
				if len(m.behind[key]) == 0 {
					r.Skip()
				}
				n := rapid.IntRange(1, len(m.behind[key])).Draw(r, "events")
				events := m.behind[key][:n]
				m.behind[key] = m.behind[key][n:]
				m.deliver(r, events...)
			},
			"repetition": func(r *rapid.T) {
				if len(m.past) == 0 {
					r.Skip()
				}
				m.apply(r, []streams.Event{rapid.SampledFrom(m.past).Draw(r, "event")})
			},
			"bookmark": func(r *rapid.T) {
				version := rapid.IntRange(m.complete, m.version).Draw(r, "version")
				var events []streams.Event
				for _, key := range modelKeys {
					events = append(events, m.upTo(key, version)...)
				}
				m.complete, m.seen = version, max(m.seen, version)
				m.deliver(r, append(events, bookmark(strconv.Itoa(version)))...)
			},
			"list": func(r *rapid.T) {
				version := rapid.IntRange(m.seen, m.version).Draw(r, "version")
				m.list(r, version)
			},
			"old list": func(r *rapid.T) {
				if m.seen == 1 {
					r.Skip()
				}
				m.oldList(r, rapid.IntRange(1, m.seen-1).Draw(r, "version"))
			},
		})
	})
}

// listAt returns the list that the server gives at a version.
func (m *model) listAt(version int) []streams.Event {
	var objects []pod
	for _, key := range modelKeys {
		if object := m.history[version][key]; visible(object) {
			objects = append(objects, object)
		}
	}
	return list("", strconv.Itoa(version), objects...)
}

// oldList lists a state from before an event that the watch has sent. Newer objects stay.
func (m *model) oldList(r *rapid.T, version int) {
	if version >= m.complete {
		m.complete = version
		for _, key := range modelKeys {
			if m.toldAt[key] > version {
				continue
			}
			m.upTo(key, version)
			m.changes[key], m.toldAt[key] = nil, version
			if object := m.history[version][key]; visible(object) {
				m.changes[key] = object
			}
		}
	}
	m.apply(r, m.listAt(version))
}

// list breaks the watch and relists. Between the parts of the list, readers see no part of it.
func (m *model) list(r *rapid.T, version int) {
	events := m.listAt(version)
	middle := rapid.IntRange(1, len(events)-1).Draw(r, "middle")
	m.apply(r, events[:middle])
	m.check(r)
	m.complete, m.seen = version, version
	for _, key := range modelKeys {
		m.upTo(key, version)
		m.changes[key], m.toldAt[key] = nil, version
		if object := m.history[version][key]; visible(object) {
			m.changes[key] = object
		}
	}
	m.apply(r, events[middle:])
}
