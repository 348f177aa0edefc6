package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// The times of a stream of events.
const (
	framePause = 100 * time.Millisecond // between two frames of items
	statePause = 250 * time.Millisecond // between two states
	stateAlive = 5 * time.Second        // until a state comes even if nothing has changed
	heartbeat  = 5 * time.Second
	patience   = 5 * time.Second  // with a client that does not read
	reseed     = 10 * time.Second // until the sampling prefers other objects
)

// gathering observes the streams of a manager for all clients.
type gathering struct {
	of    Manager
	group *lifecycle.Group

	mu       sync.Mutex
	clients  map[*client]bool
	seed     maphash.Seed
	events   sample[event]
	changes  sample[change]
	attempts sample[attempt]
	changed  bool   // since the last state
	state    []byte // the last one
}

// client is a connected browser.
type client struct {
	ended  <-chan struct{} // closed when the gathering ends
	frames chan []byte     // of items
	state  chan []byte     // the last state that was not sent
	gone   chan struct{}   // closed when the client is dropped
}

// join adds a client, and begins to gather if it is the first one. leave must be called later. It returns when
// nothing is gathered for the client any more.
func (p *Page) join() (made *client, leave func(), joined bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clients == maxClients {
		return nil, nil, false
	}
	p.clients++
	if p.current == nil {
		p.current = p.gather()
	}
	of := p.current
	return of.add(), func() {
		of.drop(made)
		p.mu.Lock()
		p.clients--
		last := p.clients == 0
		if last {
			p.current = nil // A client that comes now begins anew.
		}
		p.mu.Unlock()
		if last {
			of.group.Stop()
			_ = of.group.Wait() // Its functions only end with their context, or with the manager.
		}
	}, true
}

// gather begins to observe the streams. Each client sees everything that happens after the first state that it gets.
func (p *Page) gather() *gathering {
	g := &gathering{of: p.of, group: lifecycle.New(p.of.Context()), clients: map[*client]bool{}, seed: maphash.MakeSeed()}
	observe(g, "events", g.of.Events, g.onEvents, func(missed int) { g.events.came += missed })
	observe(g, "changes", g.of.Changes, g.onChanges, func(missed int) { g.changes.came += missed })
	observe(g, "results", g.of.Results, g.onResults, func(missed int) { g.attempts.came += missed })
	observe(g, "levels", g.of.Levels, g.onLevels, func(int) {})
	g.group.Go("frames", g.sendFrames)
	g.group.Go("states", g.sendStates)
	return g
}

// observe begins to observe a stream. When it returns, the observation has begun. missed is called with the lock.
func observe[T any](g *gathering, name string, stream streams.Stream[T], onBatch func([]T), missed func(number int)) {
	items := stream.Observe(g.group.Context())
	g.group.Go(name, func(context.Context) error {
		for item := range items {
			batch, err := streams.Values[T](item)
			if len(batch) > 0 {
				onBatch(batch)
			}
			if err != nil {
				g.onError(err, missed)
			}
		}
		return nil
	})
}

func (g *gathering) onEvents(events []streams.Event) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed = true
	for i := range events {
		if each := &events[i]; each.Object != nil { // Others are about whole lists.
			g.events.add(g.seed, each.Key.NamespacedName, func() event { return eventItem(each, now) })
		}
	}
}

func (g *gathering) onChanges(changes []streams.Change) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed = true
	for i := range changes {
		g.changes.add(g.seed, changes[i].Key.NamespacedName, func() change { return changeItem(&changes[i], now) })
	}
}

func (g *gathering) onResults(results []operators.Result) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed = true
	for i := range results {
		g.attempts.add(g.seed, types.NamespacedName{Namespace: results[i].Namespace, Name: results[i].Name}, func() attempt { return attemptItem(&results[i], now) })
	}
}

func (g *gathering) onLevels([]cache.Level) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed = true
}

// onError counts the values that an observation missed because it was too slow.
func (g *gathering) onError(err error, count func(missed int)) {
	var lagged *streams.Lagged
	if errors.As(err, &lagged) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.changed = true
		count(lagged.Missed)
	}
}

// sendFrames sends what was gathered, if there is anything.
func (g *gathering) sendFrames(ctx context.Context) error {
	ticks := time.NewTicker(framePause)
	defer ticks.Stop()
	for seeded := time.Now(); ; {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
		g.mu.Lock()
		made, some := g.take()
		if time.Since(seeded) >= reseed {
			g.seed, seeded = maphash.MakeSeed(), time.Now()
		}
		g.mu.Unlock()
		if !some {
			continue
		}
		frame, err := encode("items", made)
		if err != nil {
			return err
		}
		g.mu.Lock()
		for each := range g.clients {
			select {
			case each.frames <- frame:
			default: // It has not read for as long as the buffer lasts.
				g.remove(each)
			}
		}
		g.mu.Unlock()
	}
}

// take returns the items of a frame, and whether there are any. The caller holds the lock.
func (g *gathering) take() (made items, some bool) {
	if g.events.came+g.changes.came+g.attempts.came == 0 {
		return items{}, false
	}
	most := divide(maxItems, [3]int{len(g.events.kept), len(g.changes.kept), len(g.attempts.kept)})
	made.Time = time.Now().UnixMilli()
	made.Events, made.LeftOut.Events = g.events.take(most[0])
	made.Changes, made.LeftOut.Changes = g.changes.take(most[1])
	made.Attempts, made.LeftOut.Attempts = g.attempts.take(most[2])
	return made, true
}

// sendStates sends the state of the manager at first, after changes, and when none was sent for some time.
func (g *gathering) sendStates(ctx context.Context) error {
	ticks := time.NewTicker(statePause)
	defer ticks.Stop()
	for sent := time.Now().Add(-stateAlive); ; {
		g.mu.Lock()
		due := g.changed || time.Since(sent) >= stateAlive
		g.changed = false
		g.mu.Unlock()
		if due {
			sent = time.Now()
			frame, err := encode("state", g.of.State())
			if err != nil {
				return err
			}
			g.mu.Lock()
			g.state = frame
			for each := range g.clients {
				each.show(frame)
			}
			g.mu.Unlock()
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// encode returns an event of a stream of events.
func encode(name string, value any) ([]byte, error) {
	var frame bytes.Buffer
	frame.WriteString("event: " + name + "\ndata: ")
	if err := json.NewEncoder(&frame).Encode(value); err != nil { // It ends the only line.
		return nil, err
	}
	frame.WriteByte('\n')
	return frame.Bytes(), nil
}

// add adds a client. It gets the last state at once.
func (g *gathering) add() *client {
	made := &client{ended: g.group.Context().Done(), frames: make(chan []byte, patience/framePause), state: make(chan []byte, 1), gone: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clients[made] = true
	if g.state != nil {
		made.show(g.state)
	}
	return made
}

// drop removes a client that may be removed already.
func (g *gathering) drop(of *client) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(of)
}

// remove removes a client, which then ends. The caller holds the lock.
func (g *gathering) remove(of *client) {
	if g.clients[of] {
		delete(g.clients, of)
		close(of.gone)
	}
}

// show replaces the state that a client has not read yet. Only one goroutine may call it at a time.
func (c *client) show(state []byte) {
	select {
	case <-c.state:
	default:
	}
	c.state <- state
}
