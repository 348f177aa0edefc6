// Package qualify decides which contenders may be timed. A contender qualifies if its current
// build passed all required checks of the conformance suite.
//
// What it guarantees:
//
//   - A pass is recorded only after all checks ran, and only for that build and that version
//     of the suite. So the suite runs once for each build of a contender. It does not matter
//     whether the suite's own test or a run of the comparison needs the result first.
//   - A failure is not recorded: a contender that failed is checked again.
package qualify

import (
	"context"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/conformance"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"k8s.io/client-go/rest"
)

// quiet is how long a check watches for writes that must not come. It must exceed the one second
// by which the contract lets an unfinished status be late. It is short because the suite spends
// much of its time waiting.
const quiet = 1500 * time.Millisecond

// Options configures [Check].
type Options struct {
	// Output is the path of the file to which the contender's output is appended.
	Output string
	// Only lists the numbers of the checks to run; empty means all.
	Only []string
	// Progress is called before each check with its title. It may be nil.
	Progress func(title string)
}

// Passed reports whether a pass of this build of the contender is on record for this version of
// the suite. If so, the contender may be timed without another check.
func Passed(program *contender.Program) (bool, error) {
	return program.Passed(conformance.Version())
}

// Check runs the suite against a contender and records a pass if all checks were run and every
// required one passed. The config must be an administrator's, and no other contender may run on
// the cluster. The report holds the faults of the contender; the error is a fault of the suite.
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
