package pipeline

import (
	"fmt"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
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
	// [streams.MapOnReceive]; otherwise the pipeline counts as Settled while the stage holds events.
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
			return fmt.Errorf("stage %d of Stages has no Name or no Run; set both", i)
		case taken[own.Name] || named[own.Name]:
			return fmt.Errorf("stage %d of Stages has the name %q of another stage; give it a name of its own", i, own.Name)
		}
		named[own.Name] = true
	}
	return nil
}

// ownStages adds the user's stages.
func (p *Pipeline) ownStages(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
	for _, own := range p.options.Stages {
		before, stats := p.sent, own.Stats
		if stats == nil {
			stats = &operators.StageStats{}
			events = operators.Counted(events, own.Run, stats)
		} else {
			events = own.Run(events)
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
	}
	return events
}
