// Package qualify says which contenders may be timed: those that have passed all required
// checks of the conformance suite as the very programs that are built.
//
// What it guarantees:
//
//   - A pass is noted once all checks have run, and for that program and that version of
//     the suite alone. So the suite runs once for each build of a contender, whether the
//     suite's own test or a run of the comparison is the first to want to know.
//   - A failure is not noted: who failed is checked again.
package qualify

import (
	"context"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/conformance"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"k8s.io/client-go/rest"
)

// quiet is longer than the second that a status on its way may wait, and short, as much of
// the suite's time is spent so.
const quiet = 1500 * time.Millisecond

// Options of [Check].
type Options struct {
	// Output is the path of the file that what the contender prints is appended to.
	Output string
	// Only are the numbers of the checks to run; none are all.
	Only []string
	// Progress is called before each check, with its title; may be nil.
	Progress func(title string)
}

// Passed says whether a contender is known to have passed the suite of this build, so that
// it may be timed without another check.
func Passed(program *contender.Program) (bool, error) {
	return program.Passed(conformance.Version())
}

// Check runs the suite against a contender, on a cluster whose administrator config is of
// and on which no other contender runs, and notes if it passes. What the contender does
// wrong is in the report; the error is of the suite.
func Check(ctx context.Context, config *rest.Config, program *contender.Program, options Options) (*conformance.Report, error) {
	subject := conformance.Subject{
		Name: program.Name, Version: program.Version, CreatesOnly: program.CreatesOnly,
		Start: func(ctx context.Context, kubeconfig string) (conformance.Process, error) {
			return program.Start(context.WithoutCancel(ctx), contender.Settings{Kubeconfig: kubeconfig, Output: options.Output})
		},
	}
	report, err := conformance.Run(ctx, config, subject, conformance.Options{Only: options.Only, Quiet: quiet, Progress: options.Progress})
	if err != nil || report.Err() != nil || len(options.Only) > 0 {
		return report, err
	}
	return report, program.NotePassed(conformance.Version())
}
