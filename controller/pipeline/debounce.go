package pipeline

import (
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// debounce adds the stage that coalesces the events of busy keys.
func (p *Pipeline) debounce(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
	stats := &operators.StageStats{}
	p.addCounted("debounce", stats)
	return operators.Debounce(events, operators.DebounceOptions{Window: p.options.Window, Burst: p.options.Burst, Stats: stats})
}
