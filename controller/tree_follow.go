package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// followTree answers with the tree of an object, and with the tree again whenever it has changed, at most once in followPause. At
// least once in followAlive it sends a line feed, so that a client sees that the manager is alive. An object that the cache has no more
// is a node that is gone. It may come again.
func (m *Manager) followTree(w http.ResponseWriter, request *http.Request, resource string, name types.NamespacedName) {
	group := lifecycle.New(request.Context())
	defer func() {
		group.Stop()
		_ = group.Wait() // It only has the error of its context.
	}()
	defer context.AfterFunc(m.context(), group.Stop)()
	touched := newTouches(name.Name)
	touched.overflow() // A change before the observation begins is in no batch.
	group.Go("changes", func(ctx context.Context) error {
		return streams.ForEach(ctx, m.Changes(), touched.add, func(error) { touched.overflow() })
	})
	w.Header().Set("Content-Type", "application/json")
	control := http.NewResponseController(w)
	last := introspection.Node{Kind: resource, Namespace: name.Namespace, Name: name.Name}
	var in map[types.UID]bool
	var sent []byte
	for {
		root, seen, found := m.treeOf(m.watchedKindsOf(resource), name)
		if found {
			last, in = root, seen
		} else {
			last.Gone, last.Ready, last.Deleting, last.LeftOut = true, introspection.NotReady, false, false
			last.Children, last.Reason, last.Message, last.Since = nil, "", "", nil
		}
		line, err := json.Marshal(last)
		if err != nil {
			return // A node always has a JSON.
		}
		if bytes.Equal(line, sent) {
			line = nil
		} else {
			sent = line
		}
		_ = control.SetWriteDeadline(time.Now().Add(followPatience)) // A client that does not read may not keep the connection.
		if _, err := w.Write(append(line, '\n')); err != nil || control.Flush() != nil {
			return
		}
		if !touched.wait(group.Context(), in) {
			return
		}
	}
}

// mostTouches bounds the objects that are remembered between two trees. With more of them, the tree is made anew.
const mostTouches = 4096

// touches collects which objects have changed since a tree was made: the objects, and their owners.
type touches struct {
	root string // the name of the root, which may come again as another object
	some chan struct{}

	mu   sync.Mutex
	uids map[types.UID]bool
	all  bool // anything may have changed
}

func newTouches(root string) *touches {
	return &touches{root: root, some: make(chan struct{}, 1), uids: map[types.UID]bool{}}
}

// add adds changes of the cache.
func (t *touches) add(changes []streams.Change) {
	t.mu.Lock()
	for i := range changes {
		if len(t.uids) > mostTouches || changes[i].Key.Name == t.root {
			t.all = true
		}
		if t.all {
			break
		}
		for _, object := range []streams.Object{changes[i].Old, changes[i].New} {
			if object == nil {
				continue
			}
			t.uids[object.GetUID()] = true
			for _, owner := range object.GetOwnerReferences() {
				t.uids[owner.UID] = true
			}
		}
	}
	t.mu.Unlock()
	t.signal()
}

// overflow notes that anything may have changed.
func (t *touches) overflow() {
	t.mu.Lock()
	t.all = true
	t.mu.Unlock()
	t.signal()
}

func (t *touches) signal() {
	select {
	case t.some <- struct{}{}:
	default: // A look is due anyway.
	}
}

// take forgets what has changed, and reports whether it concerns the objects of a tree.
func (t *touches) take(in map[types.UID]bool) (concerns bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	concerns = t.all
	for uid := range t.uids {
		concerns = concerns || in[uid]
	}
	t.all = false
	clear(t.uids)
	return concerns
}

// wait waits until a change concerns the objects of a tree, but at most followAlive. It returns false if ctx has ended.
func (t *touches) wait(ctx context.Context, in map[types.UID]bool) bool {
	alive := time.After(followAlive)
	for {
		select {
		case <-time.After(followPause):
		case <-ctx.Done():
			return false
		}
		select {
		case <-t.some:
			if t.take(in) {
				return true
			}
		case <-alive:
			return true
		case <-ctx.Done():
			return false
		}
	}
}
