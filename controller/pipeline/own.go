package pipeline

import (
	"context"
	"fmt"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// Stage is a stage that the user adds between the debounce and the cache.
type Stage struct {
	// Name is the stage's name in metrics, and in reports of what the pipeline waits for.
	Name string

	// Run returns the stage's output. It is called once. The stage must keep the order of the events
	// of one key. It must also pass on events without an object, such as ListStart and ListEnd, in
	// their place. An event that the stage drops does not reach the cache, whatever the level of sync.
	// A panic ends the pipeline, and the Run of the manager returns it.
	Run func(events streams.Stream[streams.Event]) streams.Stream[streams.Event]

	// Stats, if set, is updated by the stage, by the rules of [operators.StageStats]. A stage that has
	// goroutines or holds events back must set it. Without Stats, Run must only use
	// [streams.MapBatches]; otherwise the pipeline counts as Settled while the stage holds events.
	Stats *operators.StageStats
}

// taken holds the names of the pipeline's own stages.
var taken = map[string]bool{"sources": true, "debounce": true, "cache": true, "trigger": true, "reconcile": true, "results": true}

// validateStages returns an error for a stage that is incomplete or has a name that is taken.
func validateStages(stages []Stage) error {
	named := map[string]bool{}
	for i, own := range stages {
		switch {
		case own.Name == "" || own.Run == nil:
			return fmt.Errorf("Stages[%d] has no Name or no Run; set both", i)
		case taken[own.Name] || named[own.Name]:
			return fmt.Errorf("Stages[%d] has the name %q of another stage; give it a name of its own", i, own.Name)
		}
		named[own.Name] = true
	}
	return nil
}

// ownStages adds the user's stages.
func (p *Pipeline) ownStages(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
	for _, own := range p.options.Stages {
		before, run, stats := p.sent, own.Run, own.Stats
		if stats == nil {
			stats = &operators.StageStats{}
			run = counted(own.Run, stats)
		}
		p.add(&stage{
			name: own.Name, in: stats.In.Load, out: stats.Out.Load, waiting: stats.Waiting.Load,
			held: func(hold Hold) {
				hold("", between(before(), stats.In.Load()))
				if stats.Busy() {
					hold("", max(1, stats.Waiting.Load()+stats.Running.Load()))
				}
			},
		})
		p.sent = stats.Out.Load
		events = run(events)
	}
	return events
}

// counted returns a stage that counts what run does, which uses [streams.MapBatches]. The stage has a
// goroutine of its own, which makes the count exact: it counts as Running from before it unpacks an
// item until the events are sent, also if run drops them.
func counted(run func(streams.Stream[streams.Event]) streams.Stream[streams.Event], stats *operators.StageStats) func(streams.Stream[streams.Event]) streams.Stream[streams.Event] {
	return func(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
		entering := streams.MapBatches(events, func(batch []streams.Event) ([]streams.Event, error) {
			stats.In.Add(int64(len(batch)))
			return batch, nil
		})
		return streams.Lift(run(entering), func(_ context.Context, in <-chan rxgo.Item, out streams.Sink[streams.Event]) {
			for item := range in {
				if !pass(item, out, stats) {
					return
				}
			}
		})
	}
}

// pass unpacks an item, which calls the function of the stage, and sends the events that result. It
// returns false when the observation has ended.
func pass(item rxgo.Item, out streams.Sink[streams.Event], stats *operators.StageStats) bool {
	stats.Running.Add(1)
	defer stats.Running.Add(-1)
	batch, err := streams.Values[streams.Event](item)
	if sent := int64(len(batch)); sent > 0 {
		if !out.Send(batch) {
			return false
		}
		stats.Out.Add(sent)
	}
	return err == nil || out.Error(err)
}
