package pipeline

import (
	"fmt"

	"github.com/bellerophon-io/bellerophon/operators"
)

// stage is an entry of the list of stages.
type stage struct {
	name string

	// in, out and waiting return the number of items received, sent and held back. They are nil for
	// a stage that metrics do not show, such as a hand-over.
	in, out, waiting func() int64

	// held calls hold if the stage holds anything that has to be done before the cache is Settled.
	held func(hold Hold)
}

// StageCount is the number of items that a stage has received, sent and holds back.
type StageCount struct {
	Name    string
	In, Out int64 // items received and sent: events, changes, requests or results
	Waiting int64 // items that the stage holds back now
}

// Counts returns the counts of each stage so far, in the order of the pipeline. When nothing is in
// flight, In of a stage equals Out of the stage before it. In of reconcile also counts requests of Enqueue
// and of rules that are retried.
func (p *Pipeline) Counts() []StageCount {
	var counts []StageCount
	for _, stage := range p.stages {
		if stage.in != nil {
			counts = append(counts, StageCount{stage.name, stage.in(), stage.out(), stage.waiting()})
		}
	}
	return counts
}

// eachHeld calls visit with what each stage holds, until visit returns false. It reports whether
// any stage holds anything.
func (p *Pipeline) eachHeld(visit func(stage, of string, held int64) bool) (found bool) {
	goOn := true
	for _, stage := range p.stages {
		stage.held(func(of string, held int64) {
			if goOn && held > 0 {
				found, goOn = true, visit(stage.name, of, held)
			}
		})
		if !goOn {
			break
		}
	}
	return found
}

// add adds a stage to the list. Stages must be added in the order in which items pass them.
func (p *Pipeline) add(added *stage) { p.stages = append(p.stages, added) }

// addCounted adds a stage that counts what passes it in stats. The stage also holds what is in flight
// from the stage before it.
func (p *Pipeline) addCounted(name string, stats *operators.StageStats) {
	before := p.sent // nil for the first stage: the sources report what is in flight to it
	p.add(&stage{
		name: name, in: stats.In.Load, out: stats.Out.Load, waiting: stats.Waiting.Load,
		held: func(hold Hold) {
			if before != nil {
				hold("", between(before(), stats.In.Load()))
			}
			if stats.Busy() {
				hold("", max(1, stats.Waiting.Load()+stats.Running.Load()))
			}
		},
	})
	p.sent = stats.Out.Load
}

// checkNames returns an error if two stages have one name.
func (p *Pipeline) checkNames() error {
	known := map[string]bool{"sources": true} // also if the pipeline has no entry for them
	for i, stage := range p.stages {
		if known[stage.name] && (i > 0 || stage.name != "sources") {
			return fmt.Errorf("a stage of Stages has the name %q of another stage; give it a name of its own", stage.name)
		}
		known[stage.name] = true
	}
	return nil
}

// sources adds the entry for what the sources hold before the pipeline.
func (p *Pipeline) sources() {
	if held := p.options.Sources; held != nil {
		p.add(&stage{name: "sources", held: held})
	}
}

// between returns how many items are between a sender and a receiver. The receiver may count an
// item before its sender has.
func between(sent, received int64) int64 { return max(sent-received, received-sent) }

// none returns 0, for a stage that holds nothing back.
func none() int64 { return 0 }
