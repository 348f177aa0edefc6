package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bench/conformance"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"k8s.io/client-go/rest"
)

// Values of Options.Conformance.
const (
	checkConformance = "check"
	skipConformance  = "skip"
)

// uncheckedNote is the note of a run that did not check its contenders.
const uncheckedNote = "The contenders were not checked against bench/contract.md before they were timed (--conformance=skip): " +
	"some of them may do less than the others."

// leaveOutUnfit checks the built contenders that have no recorded pass, and leaves out the
// contenders that fail a required check. An error means that the check itself could not be
// completed, or that no contender is left.
func (r *run) leaveOutUnfit(ctx context.Context, skipped map[string]string, out *screen.Screen) error {
	if r.Conformance == skipConformance {
		out.Println("the contenders are not checked against the contract (--conformance=skip)")
		return nil
	}
	var fit []contender.Contender
	for _, c := range r.contenders {
		passed, err := conformance.Passed(r.programs[c.Name])
		if err != nil {
			return err
		}
		if !passed {
			reason, err := r.unfit(ctx, r.programs[c.Name], out)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				return fmt.Errorf("checking %s against the contract: %w; start the same command to try again, "+
					"leave it out with --contenders, or give --conformance=skip to time it unchecked", c.Name, err)
			}
			if reason != "" {
				skipped[c.Name] = c.Name + " is left out: " + reason
				out.Println(skipped[c.Name])
				continue
			}
		}
		fit = append(fit, c)
	}
	r.contenders = fit
	if len(fit) == 0 {
		return errors.New("no contender passes the required checks of the contract; the lines above name the checks that each fails")
	}
	return nil
}

// unfit runs the suite against a contender. It returns why the contender may not be timed, or an
// empty string if it passed.
func (r *run) unfit(ctx context.Context, program *contender.Program, out *screen.Screen) (string, error) {
	began := time.Now()
	out.Println("checking " + program.Name + " against the contract, once for this build: it takes a few minutes")
	report, err := r.checked(ctx, program, func(title string) {
		out.Live(fmt.Sprintf("checking %s %v: %s", program.Name, time.Since(began).Round(time.Second), title))
	})
	out.Live()
	if err != nil {
		return "", err
	}
	table := r.conformanceFile(program, ".txt")
	var text strings.Builder
	if err := errors.Join(conformance.WriteTable(&text, report), replaceFile(table, []byte(text.String()), 0o644)); err != nil {
		return "", err
	}
	var failed []string
	for _, outcome := range report.FailedRequired() {
		failed = append(failed, outcome.Number+" "+outcome.Title)
	}
	if len(failed) > 0 {
		return fmt.Sprintf("it fails checks that bench/contract.md requires: %s; see %s", strings.Join(failed, ", "), table), nil
	}
	out.Println(fmt.Sprintf("%s passed all required checks of the contract after %v", program.Name, time.Since(began).Round(time.Second)))
	return "", nil
}

// conformanceFile returns the path of a file that the check of a contender writes.
func (r *run) conformanceFile(program *contender.Program, extension string) string {
	return filepath.Join(r.Dir, "conformance", program.Name+extension)
}

// check runs the suite against a contender on its own cluster.
func (r *run) check(ctx context.Context, program *contender.Program, progress func(title string)) (report *conformance.Report, err error) {
	output := r.conformanceFile(program, ".log")
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of the checks: %w", err)
	}
	progress("starting etcd and the API server")
	cluster, err := localcluster.Start(ctx, localcluster.Options{})
	if err != nil {
		return nil, err
	}
	defer func() {
		if cause := cluster.Err(); cause != nil {
			err = cause // A dead cluster fails checks that the contender would pass.
		}
		err = errors.Join(err, cluster.Stop())
	}()
	config := cluster.AdminConfig()
	config.WarningHandler = rest.NoWarnings{} // Warnings would break up the progress lines.
	return conformance.Qualify(ctx, config, program, output, conformance.Options{Progress: progress})
}
