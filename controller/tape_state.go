package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
)

// recordedStateEvery is the least time between two recorded states, unless the level changes. It is also how exactly the page
// shows the lengths of queues in the past.
const recordedStateEvery = time.Second

// recordStates records the state of the manager, until ctx ends.
func (m *Manager) recordStates(ctx context.Context) error {
	group := lifecycle.New(ctx)
	levels := make(chan struct{}, 1)
	group.Go("levels", func(ctx context.Context) error {
		return streams.ForEach(ctx, m.cache.Levels(), func([]cache.Level) {
			select {
			case levels <- struct{}{}:
			default: // A state is due anyway.
			}
		}, func(error) {}) // The levels have no errors.
	})
	group.Go("states", func(ctx context.Context) error {
		ticks := time.NewTicker(recordedStateEvery)
		defer ticks.Stop()
		var last []byte
		for {
			select {
			case <-levels:
			case <-ticks.C:
			case <-ctx.Done():
				return nil
			}
			state := m.introspection()
			state.Time = time.Time{} // It would make each state another one.
			encoded, err := json.Marshal(state)
			if err != nil {
				return err
			}
			if !bytes.Equal(encoded, last) {
				m.tape.put(recording.Record{Position: m.tape.now(), State: encoded}, len(encoded))
				last = encoded
			}
		}
	})
	return group.Wait()
}
