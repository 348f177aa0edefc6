package faults

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Subject is an operator under test, and the work that it is given.
type Subject struct {
	// Name appears in reports, and in the names of state files.
	Name string
	// Command returns a new command that runs the operator for the cluster of a kubeconfig file.
	// The package starts and kills it. It has to watch all namespaces.
	Command func(kubeconfig string) *exec.Cmd
	// Definitions are paths of files, or of folders of files, with CustomResourceDefinitions.
	Definitions []string
	// Kinds are the kinds whose objects are compared: the operator's own kind, and all kinds that
	// it writes. Objects in other namespaces than the trial's are not compared.
	Kinds []schema.GroupVersionResource
	// Workload is what a user does, one step after another, in each trial's own namespace. The
	// first step creates, and the second step changes. Steps that are not safe to run in several
	// namespaces at once are not allowed.
	Workload []Step
}

// Step is one thing that a user does, and its result.
type Step struct {
	Name string
	// Do does it.
	Do func(ctx context.Context, user *User) error
	// Done returns nil once the operator has done its part, and says what is missing otherwise.
	Done func(seen State) error
}

func (s Subject) validate() error {
	switch {
	case s.Name == "":
		return errors.New("faults: Subject.Name is empty; give the name for reports")
	case s.Command == nil:
		return fmt.Errorf("faults: Subject.Command of %s is nil; give the command that runs it", s.Name)
	case len(s.Kinds) == 0:
		return fmt.Errorf("faults: Subject.Kinds of %s is empty; give at least the operator's own kind", s.Name)
	case len(s.Workload) < 2:
		return fmt.Errorf("faults: Subject.Workload of %s has %d steps; give at least 2, a creation and a change", s.Name, len(s.Workload))
	}
	for i, step := range s.Workload {
		if step.Name == "" || step.Do == nil || step.Done == nil {
			return fmt.Errorf("faults: step %d of Subject.Workload of %s lacks Name, Do or Done; give all three", i+1, s.Name)
		}
	}
	return nil
}

// Options configures a run. The zero value runs every case.
type Options struct {
	// Sample is the number of cases to run, evenly spread over all; 0 (the default) runs all.
	Sample int
	// Only runs the cases whose names match this pattern; nil (the default) runs all.
	Only *regexp.Regexp
	// Folder holds the state of runs, so that a run goes on where the last one ended. Empty (the
	// default) keeps no state.
	Folder string
	// Limit ends a run between two cases, but not before the fault of one case has happened. 0 (the
	// default) is no limit.
	Limit time.Duration
	// Quiet is how long nothing may be written after the last case: 0 to 10 min; default 60 s.
	Quiet time.Duration
	// Patience is the time for a step under a fault: 1 s to 10 min; default 60 s.
	Patience time.Duration
	// Progress receives one line for each case; may be nil.
	Progress func(line string)
}

func (o Options) complete() (Options, error) {
	if o.Quiet == 0 {
		o.Quiet = time.Minute
	}
	if o.Patience == 0 {
		o.Patience = time.Minute
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	const most = 10 * time.Minute
	if o.Sample < 0 || o.Limit < 0 || o.Quiet < 0 || o.Quiet > most || o.Patience < time.Second || o.Patience > most {
		return o, fmt.Errorf("faults: Sample is %d, Limit %v, Quiet %v and Patience %v; allowed are 0 and above, 0 and above, 0 to %v, and 1s to %v",
			o.Sample, o.Limit, o.Quiet, o.Patience, most, most)
	}
	return o, nil
}
