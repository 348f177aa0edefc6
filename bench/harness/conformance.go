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
	"github.com/bellerophon-io/bellerophon/bench/qualify"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"k8s.io/client-go/rest"
)

// What the option Conformance may be.
const (
	checkConformance = "check"
	skipConformance  = "skip"
)

// uncheckedNote says that a run took the contenders' word for it.
const uncheckedNote = "The contenders were not checked against bench/contract.md before they were timed (--conformance=skip): " +
	"there may be some among them that do less than the others."

// leaveOutUnfit checks the contenders that were built and are not known to do what the
// contract says, and leaves out those that fail a required check. The error is not theirs.
func (r *run) leaveOutUnfit(ctx context.Context, skipped map[string]string, out *screen.Screen) error {
	if r.Conformance == skipConformance {
		out.Println("the contenders are not checked against the contract, as --conformance=skip says")
		return nil
	}
	var fit []contender.Contender
	for _, c := range r.contenders {
		passed, err := qualify.Passed(r.programs[c.Name])
		if err != nil {
			return err
		}
		if !passed {
			reason, err := r.unfit(ctx, r.programs[c.Name], out)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				return fmt.Errorf("checking whether %s does what the contract says: %w; the same command tries again, "+
					"--contenders without it leaves it out, and --conformance=skip times it unchecked", c.Name, err)
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
		return errors.New("no contender does what the contract says; the lines above name the checks that each fails")
	}
	return nil
}

// unfit runs the suite against a contender, and says why it may not be timed, if so.
func (r *run) unfit(ctx context.Context, program *contender.Program, out *screen.Screen) (string, error) {
	began := time.Now()
	out.Println("checking whether " + program.Name + " does what the contract says, once for this build of it: a few minutes")
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
		return fmt.Sprintf("it fails what bench/contract.md requires, %s; %s says how", strings.Join(failed, ", "), table), nil
	}
	out.Println(fmt.Sprintf("%s does what the contract requires, as was checked for %v", program.Name, time.Since(began).Round(time.Second)))
	return "", nil
}

// conformanceFile is the path of what a check of a contender leaves.
func (r *run) conformanceFile(program *contender.Program, extension string) string {
	return filepath.Join(r.Dir, "conformance", program.Name+extension)
}

// check runs the suite against a contender on a cluster of its own.
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
			err = cause // What came of it is no failure of the contender's.
		}
		err = errors.Join(err, cluster.Stop())
	}()
	config := cluster.AdminConfig()
	config.WarningHandler = rest.NoWarnings{} // They would go between the lines of the progress.
	return qualify.Check(ctx, config, program, qualify.Options{Output: output, Progress: progress})
}
