package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/recording"
)

// recordedStateEvery is the time between two recorded states. It is also how exactly the page shows levels and the lengths of
// queues in the past.
const recordedStateEvery = 2 * time.Second

// recordStates records the state of the manager, until ctx ends.
func (m *Manager) recordStates(ctx context.Context) error {
	ticks := time.NewTicker(recordedStateEvery)
	defer ticks.Stop()
	for last := []byte(nil); ; {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
		state := m.introspection(0)
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
}
