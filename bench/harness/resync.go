package harness

import (
	"fmt"
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
)

// resync says how often each contender reconciles everything again though nothing changed. No
// scenario is as long as any of them, unless one is asked to idle for an hour.
var resync = map[string]string{
	"bellerophon":              "none",
	"controller-runtime":       "10 h (cache.Options.SyncPeriod, its default)",
	"controller-runtime-tuned": "10 h (cache.Options.SyncPeriod, its default)",
	"kube-rs":                  "1 h (each object is looked at again so long after a success, as the documentation of Action::requeue has it)",
	"quarkus":                  "10 h (maximal reconciliation interval, its default); none of the informers",
	"tutorial":                 "none",
	"ideal":                    "none: it has no cache",
}

// notes are what a reader of this run has to know.
func (c *choice) notes() []string {
	var notes []string
	if c.Conformance == skipConformance {
		notes = append(notes, uncheckedNote)
	}
	if c.hasWithoutServers() {
		notes = append(notes, fmt.Sprintf("objects of a storm, and of a scenario with more than %d of them, have no servers (replicas: 0), and one each in others: "+
			"the machine would be busy with pods", scenario.ManyObjects))
	}
	for _, one := range c.contenders {
		notes = append(notes, one.Notes...)
		if len(c.workers) > 0 && one.OneWorker {
			notes = append(notes, one.Name+" reconciles one object at a time: it is left out of the numbers of workers above 1")
		}
		if len(c.limits) > 0 && one.NoHeapLimit {
			notes = append(notes, one.Name+" has no heap whose size could be limited: it is left out of the limits of the memory, and reported as it is by default")
		}
		for _, check := range one.NotMet {
			notes = append(notes, one.Name+" does not meet check "+check+" of bench/conformance, which the contract reports and does not require")
		}
	}
	return notes
}

func (c *choice) hasWithoutServers() bool {
	return slices.ContainsFunc(c.scenarios, func(s scenario.Chosen) bool { return s.Replicas() == 0 })
}

func resyncs(contenders []contender.Contender) map[string]string {
	said := map[string]string{}
	for _, c := range contenders {
		said[c.Name] = resync[c.Name]
		if said[c.Name] == "" {
			said[c.Name] = "not known"
		}
	}
	return said
}
