// Command factor examines the factor of Settled: how many loop durations without an event count
// as calm. See [cache.LoopOptions].
//
// It runs the operator in its own process on a local cluster and records when an attempt was
// pending. The times between attempts are the calms. For each factor it computes in which calms
// Settled rises, how often an event follows soon, and how late the rise is.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/command"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/spf13/cobra"
)

func main() { os.Exit(command.Run(newFactor())) }

// options holds the values of the command line.
type options struct {
	scenarios []scenario
	load      time.Duration
	svg       string // the file for the picture
	progress  *progress
}

// validate returns an error that names the option that is out of its range.
func (o options) validate() error {
	if o.load < 3*time.Second || o.load > time.Hour {
		return fmt.Errorf("--load is %v; allowed is 3s to 1h", o.load)
	}
	if folder := filepath.Dir(o.svg); o.svg != "" {
		if _, err := os.Stat(folder); err != nil { // Fails before the measurement instead of after it.
			return fmt.Errorf("--svg is %s: %w; give a file in a folder that exists", o.svg, err)
		}
	}
	return nil
}

func newFactor() *cobra.Command {
	var options options
	var list, output string
	command := &cobra.Command{
		Use:   "factor",
		Short: "Examine how many loop durations without an event count as calm",
		Long: fmt.Sprintf(`Factor starts a local cluster, runs the operator in its own process and puts it through
scenarios. For each factor from 1 to 100 it prints

  rises      how often Settled rises: calms that last for factor × the loop duration, which is
             taken as %v or more
  premature  rises after which an event came within one more loop duration
  within 1 s rises after which an event came within a second
  late       the time from the end of the work to the rise

The next event after a rise is a write of the load, or it follows from the work of the operator
and the cluster. Events of the second kind are "not by the load". The default factor is %v.

The scenarios are

%s`, floor, cache.DefaultLoopFactor, describe()),
		Example: `  go run ./bench/factor
  go run ./bench/factor --scenarios drift,churn --load 2m
  go run ./bench/factor --svg docs/settled-factor.svg --output json > factor.json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output is %q; allowed are text and json", output)
			}
			if options.scenarios, err = selectScenarios(list); err != nil {
				return err
			}
			if err := options.validate(); err != nil {
				return err
			}
			options.progress = newProgress(screen.New(os.Stderr))
			outcome, err := examine(command.Context(), options)
			if err != nil {
				return err
			}
			if err := outcome.print(os.Stdout, output == "json", screen.New(os.Stdout)); err != nil || options.svg == "" {
				return err
			}
			return outcome.draw(options.svg)
		},
	}
	flags := command.Flags()
	flags.StringVar(&list, "scenarios", strings.Join(scenarioNames(), ","), "scenarios to run, separated by commas")
	flags.DurationVar(&options.load, "load", 40*time.Second, "duration of the load of one scenario: 3s to 1h; a calm of some seconds follows")
	flags.StringVar(&options.svg, "svg", "", "write a picture of all scenarios to this file")
	flags.StringVarP(&output, "output", "o", "text", "text, or json: one object at the end; progress is on standard error")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// describe lists the scenarios for the help text.
func describe() string {
	var text strings.Builder
	for _, scenario := range scenarios {
		fmt.Fprintf(&text, "  %-8s %s\n", scenario.name, scenario.about)
	}
	return text.String()
}

// examine runs the scenarios and returns their outcome.
func examine(ctx context.Context, options options) (outcome, error) {
	found := outcome{Processors: runtime.NumCPU(), Floor: floor.Seconds()}
	defer options.progress.done()
	err := withCluster(ctx, options.progress, func(ctx context.Context, w *world) error {
		found.Kubernetes = w.version
		var all []recording
		for i, scenario := range options.scenarios {
			options.progress.begin(i, len(options.scenarios), scenario)
			recordings, err := w.live(ctx, scenario, options.load)
			if err != nil {
				return fmt.Errorf("run scenario %s: %w", scenario.name, err)
			}
			found.Scenarios = append(found.Scenarios, measure(scenario.name, recordings))
			all = append(all, recordings...)
		}
		found.Scenarios = append(found.Scenarios, measure(allScenarios, all))
		return nil
	})
	return found, err
}
