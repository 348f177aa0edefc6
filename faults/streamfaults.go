package faults

import (
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

var streamFaults = []disturbance{
	once("streams: cut in mid-frame", func(s *stream, e *event) {
		line := e.line()
		s.raw(line[:len(line)/2])
		s.end(errBroken)
	}),
	once("streams: end without the event", func(s *stream, _ *event) { s.end(io.EOF) }),
	once("streams: 410 by an ERROR event", func(s *stream, _ *event) {
		s.raw([]byte(expired))
		s.end(io.EOF)
	}),
	{"streams: 410 by status", 1, 0, goneByStatus},
	always("streams: every event twice", func(s *stream, e *event) {
		s.send(e)
		s.send(e)
	}),
	delaying("streams: reordered, own kind 1 s late", func(t *trial, s *stream) bool { return s.resource == t.subject.Kinds[0].GroupResource().String() }, false),
	delaying("streams: reordered, other kinds 1 s late", func(t *trial, s *stream) bool { return s.resource != t.subject.Kinds[0].GroupResource().String() }, false),
	delaying("streams: bookmarks only for 1 s", func(*trial, *stream) bool { return true }, true),
	always("streams: trickle, 16 bytes at a time after a thousand blank lines", func(s *stream, e *event) {
		blank := make([]byte, 1000)
		for i := range blank {
			blank[i] = '\n'
		}
		s.mu.Lock()
		s.trickle = true
		s.mu.Unlock()
		s.raw(blank)
		s.send(e)
	}),
	once("streams: nonsense, no JSON", func(s *stream, e *event) {
		s.raw([]byte("\x00\xff}{]\n"))
		s.send(e)
	}),
	once("streams: nonsense, unknown type of event", func(s *stream, e *event) {
		noise := *e
		noise.Type = "NOISE"
		s.raw(noise.line())
		s.send(e)
	}),
	once("streams: nonsense, object of another kind", func(s *stream, e *event) {
		s.raw([]byte(`{"type":"MODIFIED","object":{"kind":"Nonsense","apiVersion":"nonsense.example.com/v1","metadata":{"name":"x","namespace":"x"}}}` + "\n"))
		s.send(e)
	}),
	once("streams: nonsense, no object", func(s *stream, e *event) {
		s.raw([]byte(`{"type":"MODIFIED"}` + "\n"))
		s.send(e)
	}),
	{"streams: streamed list without its end for 3 s, after a restart", 1, outage, endlessList},
}

// distortion is an editor that changes events of one trial.
type distortion struct {
	namespace string
	change    func(s *stream, e *event)
}

// opened implements editor.
func (*distortion) opened(*stream) {}

// edit implements editor.
func (d *distortion) edit(s *stream, e *event) {
	if !isChange(e) || namespaceOf(s, e) != d.namespace {
		s.send(e)
		return
	}
	d.change(s, e)
}

// always returns a fault that changes all events of a trial.
func always(name string, change func(s *stream, e *event)) disturbance {
	return disturbance{name, 1, 0, func(t *trial) (*effect, error) {
		made := &effect{end: func() error {
			t.edit(nil)
			t.wire.hasten()
			return nil
		}}
		t.edit(&distortion{t.user.Namespace, func(s *stream, e *event) {
			made.happened()
			change(s, e)
		}})
		return made, nil
	}}
}

// once returns a fault that changes the next event of each watch.
func once(name string, change func(s *stream, e *event)) disturbance {
	return disturbance{name, 1, 0, func(t *trial) (*effect, error) {
		made := &effect{end: func() error { t.edit(nil); return nil }}
		var mu sync.Mutex
		struck := map[string]bool{}
		t.edit(&distortion{t.user.Namespace, func(s *stream, e *event) {
			mu.Lock()
			again := struck[s.signature]
			struck[s.signature] = true
			mu.Unlock()
			if again {
				s.send(e)
				return
			}
			made.happened()
			change(s, e)
		}})
		return made, nil
	}}
}

// delaying returns a fault that holds the events of some watches for a second. Meanwhile a bookmark may
// promise everything before the first of them.
func delaying(name string, late func(t *trial, s *stream) bool, marks bool) disturbance {
	return disturbance{name, 1, time.Second, func(t *trial) (*effect, error) {
		made := &effect{}
		var mu sync.Mutex
		over, order := false, []func(){}
		marked := map[string]bool{}
		t.edit(&distortion{t.user.Namespace, func(s *stream, e *event) {
			mu.Lock()
			defer mu.Unlock()
			if over || !late(t, s) {
				s.send(e)
				return
			}
			made.happened()
			if marks && !marked[s.signature] {
				marked[s.signature] = true
				s.raw(bookmarkBefore(e))
			}
			order = append(order, func() { s.send(e) })
		}})
		made.end = func() error {
			mu.Lock()
			defer mu.Unlock()
			over = true
			for _, send := range order {
				send()
			}
			return nil
		}
		return made, nil
	}}
}

// goneByStatus ends all watches, and refuses to continue them: their versions are too old.
func goneByStatus(t *trial) (*effect, error) {
	made := &effect{}
	refused := map[string]bool{}
	set := func(refuse func(*request.RequestInfo, *http.Request) *answer) {
		t.wire.mu.Lock()
		defer t.wire.mu.Unlock()
		t.wire.refuse = refuse
	}
	set(func(info *request.RequestInfo, r *http.Request) *answer {
		query := r.URL.Query()
		watch := r.URL.Path + "?" + query.Get("labelSelector") + query.Get("fieldSelector")
		if info.Verb != "watch" || query.Get("resourceVersion") == "" || refused[watch] {
			return nil
		}
		refused[watch] = true
		made.happened()
		return &answer{code: http.StatusGone, reason: "Expired", message: "too old resource version"}
	})
	made.end = func() error { set(nil); return nil }
	t.wire.mu.Lock()
	defer t.wire.mu.Unlock()
	for _, s := range t.wire.streams {
		s.end(io.EOF) // A watch that breaks could lead to a list of its own.
	}
	return made, nil
}

// unending holds back the bookmarks at the end of streamed lists.
type unending struct{}

// opened implements editor.
func (unending) opened(*stream) {}

// edit implements editor.
func (unending) edit(s *stream, e *event) {
	if e.Type != bookmark || e.head.Metadata.Annotations[initialEnd] == "" {
		s.send(e)
	}
}

// endlessList restarts the operator. Its streamed lists do not end until the connections are reset.
func endlessList(t *trial) (*effect, error) {
	t.edit(unending{})
	t.kill()
	if err := t.revive(t.process.Load()); err != nil {
		return nil, err
	}
	return lasting(func() error {
		t.edit(nil)
		t.proxy.Cut(watches)
		return nil
	})
}
