package harness

import (
	"fmt"
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
)

// kindsNote is the note of a run with programs that the conformance suite does not know.
const kindsNote = "in kinds, contenders run a program of their own with a controller for each kind; no conformance suite checks it, " +
	"but each round checks the ConfigMap and the status of each object"

// notes returns what a reader of this run has to know.
func (c *choice) notes() []string {
	var notes []string
	if c.Conformance == skipConformance {
		notes = append(notes, uncheckedNote)
	}
	if c.Cores == ownCores {
		notes = append(notes, fmt.Sprintf("contenders have the processor %v alone; API server, etcd, the load, the proxy and Prometheus have the processors %v", c.own, c.rest))
	}
	if c.Cgroup != "" {
		notes = append(notes, fmt.Sprintf("contenders have hard limits, in a control group of their own: %v; the kernel kills a contender that needs more memory", c.hard))
	}
	if c.hasWithoutServers() {
		notes = append(notes, fmt.Sprintf("objects of a storm, of a disturbance, of failover and of shards, and of a scenario with more than %d of them, have no servers (replicas: 0), because "+
			"the machine would be busy with pods; in the other scenarios each object has one server", scenario.ManyObjects))
	}
	if c.hasManyKinds() {
		notes = append(notes, kindsNote)
	}
	for _, one := range c.contenders {
		notes = append(notes, one.Notes...)
		if c.hasManyKinds() && one.NoKinds != "" {
			notes = append(notes, one.Name+" takes no part in kinds: "+one.NoKinds)
		}
		if len(c.workers) > 0 && one.OneWorker {
			notes = append(notes, one.Name+" reconciles one object at a time: it is not measured with more than 1 worker")
		}
		if len(c.limits) > 0 && one.NoHeapLimit != "" && !one.CreatesOnly {
			notes = append(notes, one.Name+" has no heap whose size can be limited: it is not measured with memory limits, only with its default")
		}
		for _, s := range c.scenarios {
			if s.Elects && !one.Elects {
				notes = append(notes, fmt.Sprintf("%s is left out of %s: its program elects no leader", one.Name, s.Name))
			}
			if s.Shares && !one.Shares {
				notes = append(notes, fmt.Sprintf("%s is left out of %s: its processes cannot share the objects", one.Name, s.Name))
			}
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

// addFacts adds the resync and the settings of a contender to run.json.
func (c *choice) addFacts(described *rundir.Run, one contender.Contender) {
	if described.Settings == nil {
		described.Settings = map[string]rundir.Settings{}
	}
	settings := one.Defaults
	if c.Cores == ownCores {
		settings.Processors = "1 of its own"
	}
	settings.Limits = c.hard.String()
	described.Resync[one.Name], described.Settings[one.Name] = one.Resync, settings
}
