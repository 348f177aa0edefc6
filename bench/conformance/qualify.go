package conformance

import (
	"context"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"k8s.io/client-go/rest"
)

// qualifyingQuiet is how long a check watches for writes that must not come, if a contender has to
// qualify. It must exceed the one second by which the contract lets an unfinished status be late. It is
// short because the suite spends much of its time waiting.
const qualifyingQuiet = 1500 * time.Millisecond

// Passed reports whether a pass of this build of the contender is on record for this version of
// the suite. If so, the contender may be timed without another check.
func Passed(program *contender.Program) (bool, error) { return program.Passed(Version()) }

// Qualify runs the suite against a contender whose output is appended to a file. It records a pass if
// all checks were run and every required one passed. The config must be an administrator's, and no
// other contender may run on the cluster. The report holds the faults of the contender; the error is a
// fault of the suite.
func Qualify(ctx context.Context, config *rest.Config, program *contender.Program, output string, options Options) (*Report, error) {
	subject := Subject{
		Name: program.Name, Version: program.Version, CreatesOnly: program.CreatesOnly,
		Start: func(ctx context.Context, kubeconfig string) (Process, error) {
			return program.Start(context.WithoutCancel(ctx), contender.Settings{Kubeconfig: kubeconfig, Output: output})
		},
	}
	if options.Quiet == 0 {
		options.Quiet = qualifyingQuiet
	}
	report, err := Run(ctx, config, subject, options)
	if err != nil || report.Err() != nil || len(options.Only) > 0 {
		return report, err
	}
	return report, program.NotePassed(Version())
}
