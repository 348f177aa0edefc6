package pipeline

import (
	"context"
	"fmt"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// Stage is a stage of the user's own, between the debounce and the cache.
type Stage struct {
	// Name is the stage's name in metrics, and where the pipeline says what it waits for.
	Name string

	// Run returns the stage's output. It is called once. The stage must keep the order of the events
	// of one key, and must pass on events without an object, such as ListStart and ListEnd, in their
	// place. An event that it drops is not in the cache, whatever the level of sync says.
	Run func(events streams.Stream[streams.Event]) streams.Stream[streams.Event]

	// Stats, if set, is counted by the stage, by the rules of [operators.StageStats]. A stage that has
	// goroutines or holds events back must set it. Without Stats the stage must be a function of
	// [streams.MapBatches]: the pipeline would be Settled while another stage holds events.
	Stats *operators.StageStats
}

// taken are the names of the pipeline's own stages.
var taken = map[string]bool{"sources": true, "debounce": true, "cache": true, "trigger": true, "reconcile": true, "results": true}

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

// ownStages puts the user's stages in place.
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

// counted returns a stage that counts what a function of [streams.MapBatches] does. The goroutine of
// its own is what makes the count exact: it is Running from before an item is taken apart until its
// events were sent, also if the function drops them.
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

// pass takes an item apart and sends what is in it. It returns false when the observation has
// ended.
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
