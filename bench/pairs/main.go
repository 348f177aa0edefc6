// Command pairs compares the speed of two revisions by benchmarks in paired runs.
//
// It checks out both revisions into temporary git worktrees and builds the binaries of their
// benchmarks once. Then it runs each benchmark in its own process, alternately of base and of
// change: A B, B A, A B. The two runs of a pair follow each other, so that a machine that slows
// down for a minute slows down both.
//
// Each pair yields one ratio of change to base for each unit. The result is the geometric mean of
// these ratios with a 95 % confidence interval: see interval in ratio.go.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/command"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/spf13/cobra"
)

func main() { os.Exit(command.Run(newPairs())) }

func newPairs() *cobra.Command {
	options := options{programs: programs}
	var bench, output string
	command := &cobra.Command{
		Use:   "pairs --base REV",
		Short: "Compare the speed of two revisions by benchmarks in paired runs",
		Long: `Pairs builds the benchmarks of two revisions in temporary git worktrees and runs them
alternately: base, change, change, base, and so on. For each benchmark and each of ns/op,
cpu-ns/op, B/op, allocs/op and writes it prints the geometric mean of the ratios
change/base, with a 95 % confidence interval.

The exit code is 1 if the upper end of an interval exceeds ` + fmt.Sprint(bound) + `, if writes differ, or if
the comparison failed. Only commits are compared. If there are uncommitted changes, a
warning says that they are not measured.

The benchmarks are

` + describe(programs) + `
cpu-ns/op is the CPU time of the whole process, including its setup. It is comparable
because both revisions do the same number of operations. core measures cpu-ns/op itself.

operator is not run by default. It takes a quarter of an hour for each scenario, and writes
differ between rounds of a scenario where they depend on time, as in a storm.`,
		Example: `  go run ./bench/pairs --base main
  go run ./bench/pairs --base HEAD~3 --change HEAD --bench operators --only 'Reconcile|Debounce'
  go run ./bench/pairs --base main --bench operator --only 'burst|restart' --limit 2h
  go run ./bench/pairs --base v1.2.0 --pairs 20 --limit 2h --output json > ratios.json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output is %q; allowed are text and json", output)
			}
			if options.programs, err = selectPrograms(programs, bench); err != nil {
				return err
			}
			if err := options.validate(); err != nil {
				return err
			}
			options.progress = newProgress(screen.New(os.Stderr))
			if err := useOneControlPlane(command.Context(), options.programs); err != nil {
				return err
			}
			outcome, err := compare(command.Context(), options)
			if err != nil {
				return err
			}
			if err := outcome.print(os.Stdout, output == "json", screen.New(os.Stdout)); err != nil {
				return err
			}
			return outcome.verdict()
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.base, "base", "", "revision to compare with, such as main or HEAD~1")
	flags.StringVar(&options.change, "change", "HEAD", "revision to judge")
	flags.IntVar(&options.pairs, "pairs", leastPairs, fmt.Sprintf("pairs of runs: %d to %d", leastPairs, mostPairs))
	flags.StringVar(&bench, "bench", strings.Join(defaults(), ","), "benchmarks to run, separated by commas")
	flags.StringVar(&options.only, "only", "", "run only the benchmarks whose names match this regular expression")
	flags.DurationVar(&options.benchtime, "benchtime", 300*time.Millisecond, "approximate duration of one run of a benchmark: 1ms to 1m")
	flags.DurationVar(&options.limit, "limit", 45*time.Minute, "fail when the comparison has taken this long: 1m to 24h")
	flags.StringVarP(&output, "output", "o", "text", "text, or json, which prints one object at the end; progress goes to standard error")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	_ = command.MarkFlagRequired("base")
	return command
}
