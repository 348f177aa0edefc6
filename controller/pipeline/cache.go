package pipeline

import (
	"sync/atomic"

	"github.com/bellerophon-io/bellerophon/streams"
)

// applyToCache adds the stage that applies events to the cache, and returns what they change.
func (p *Pipeline) applyToCache(events streams.Stream[streams.Event]) streams.Stream[streams.Change] {
	var in, out atomic.Int64
	sent := p.sent
	p.add(&stage{
		name: "cache", in: in.Load, out: out.Load, waiting: none,
		held: func(hold Hold) { hold("", between(sent(), p.intake.taken.Load())) },
	})
	p.sent = out.Load
	return streams.MapOnReceive(events, func(batch []streams.Event) ([]streams.Change, error) {
		in.Add(int64(len(batch)))
		p.intake.events += int64(len(batch))
		for i := range batch {
			if batch[i].Reset {
				p.options.Controllers.ForgetEchoes()
			}
		}
		if p.events.Observed() {
			p.events.Send(batch)
		}
		var changes []streams.Change
		if p.options.Applying == nil {
			changes = p.options.Cache.Apply(batch) // It marks the cache active before readers see the changes.
		} else {
			p.options.Applying(batch, func() []streams.Change {
				changes = p.options.Cache.Apply(batch)
				return changes
			})
		}
		out.Add(int64(len(changes)))
		if p.options.Changed != nil {
			p.options.Changed(changes)
		}
		if p.changes.Observed() {
			p.changes.Send(changes)
		}
		streams.Recycle(batch) // This comes last: NewBatch may return the slice again from here on.
		return changes, nil
	})
}
