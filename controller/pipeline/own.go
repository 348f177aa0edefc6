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

// validateStages returns an error for a stage that is incomplete.
func validateStages(stages []Stage) error {
	for i, own := range stages {
		if own.Name == "" || own.Run == nil {
			return fmt.Errorf("stage %d of Stages has no Name or no Run; set both", i)
		}
	}
	return nil
}

// ownStages adds the user's stages.
func (p *Pipeline) ownStages(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
	for _, own := range p.options.Stages {
		stats := own.Stats
		if stats == nil {
			stats = &operators.StageStats{}
			events = operators.Counted(events, own.Run, stats)
		} else {
			events = own.Run(events)
		}
		p.addCounted(own.Name, stats)
	}
	return events
}
