package harness

import (
	"fmt"
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
)

// resync holds how often each contender reconciles all objects again although nothing changed.
// Every scenario is shorter than each of these periods, unless an idle scenario of an hour is
// requested.
var resync = map[string]string{
	"bellerophon":              "none",
	"controller-runtime":       "10 h (cache.Options.SyncPeriod, its default)",
	"controller-runtime-tuned": "10 h (cache.Options.SyncPeriod, its default)",
	"kube-rs":                  "1 h (each object is requeued that long after a success, as the documentation of Action::requeue recommends)",
	"quarkus":                  "10 h (maximal reconciliation interval, its default); the informers do not resync",
	"tutorial":                 "none",
	"ideal":                    "none: it has no cache",
}

// notes returns what a reader of this run has to know.
func (c *choice) notes() []string {
	var notes []string
	if c.Conformance == skipConformance {
		notes = append(notes, uncheckedNote)
	}
	if c.hasWithoutServers() {
		notes = append(notes, fmt.Sprintf("objects of a storm, and of a scenario with more than %d of them, have no servers (replicas: 0), because "+
			"the machine would be busy with pods; in the other scenarios each object has one server", scenario.ManyObjects))
	}
	for _, one := range c.contenders {
		notes = append(notes, one.Notes...)
		if len(c.workers) > 0 && one.OneWorker {
			notes = append(notes, one.Name+" reconciles one object at a time: it is not measured with more than 1 worker")
		}
		if len(c.limits) > 0 && one.NoHeapLimit {
			notes = append(notes, one.Name+" has no heap whose size can be limited: it is not measured with memory limits, only with its default")
		}
		for _, check := range one.NotMet {
			notes = append(notes, one.Name+" does not meet check "+check+" of bench/conformance, which the contract reports but does not require")
		}
	}
	return notes
}

func (c *choice) hasWithoutServers() bool {
	return slices.ContainsFunc(c.scenarios, func(s scenario.Chosen) bool { return s.Replicas() == 0 })
}

// resyncs returns the resync periods of the contenders, by name.
func resyncs(contenders []contender.Contender) map[string]string {
	periods := map[string]string{}
	for _, c := range contenders {
		periods[c.Name] = resync[c.Name]
		if periods[c.Name] == "" {
			periods[c.Name] = "not known"
		}
	}
	return periods
}
