package main

import (
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bench/harness"
	"github.com/bellerophon-io/bellerophon/bench/report"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
	"github.com/spf13/cobra"
)

func newRun() *cobra.Command {
	var options harness.Options
	command := &cobra.Command{
		Use:   "run",
		Short: "Run contenders through scenarios, and leave the outcome in a folder",
		Long: `Run runs contenders through scenarios, each round on an API server of its own, and leaves
the outcome in a folder. Interrupted, it goes on when it is started again with the same flags;
--contenders may be others then, and --turns more.

Before anything is timed, each contender is checked against bench/contract.md, once for each
build of it. That takes 1 to 3 minutes a contender. Who fails, and whose toolchain is missing
or too old, is left out.

The scenarios are

` + scenario.Describe() + `
and may have a size, such as burst:n=200, storm:n=100:m=10, steady:n=500:load=75 or
idle:n=1000:seconds=300.`,
		Example: "  go run ./bench run --contenders bellerophon,controller-runtime,ideal --scenarios burst:n=200 --turns 5 --out bin/mine",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			options.Log = os.Stderr
			return harness.Run(command.Context(), options, report.Rules, screen.New(os.Stdout))
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Contenders, "contenders", "all", "the contenders, with commas between them, or all")
	flags.StringVar(&options.Scenarios, "scenarios", "all", "the scenarios, with commas between them, or all")
	flags.StringVar(&options.Dir, "out", "", "the folder for the outcome")
	flags.StringVar(&options.Conformance, "conformance", "check", "check: those contenders that were not checked as they are built now; skip: none")
	flags.BoolVar(&options.Full, "full", false, "use the large sizes of the scenarios, which take hours")
	flags.IntVar(&options.Turns, "turns", 2, "how often everything is measured, in turn forwards and backwards: 1 to 100")
	flags.StringVar(&options.Workers, "workers", "", "numbers of reconciles at once to measure bursts and steady loads with, beside the defaults, such as 1,8,32")
	flags.StringVar(&options.Memory, "memory", "", "limits of the memory to measure bursts and returns with, beside the defaults, such as 512Mi,256Mi")
	flags.BoolVar(&options.Warm, "warm", false, "measure bursts and steady loads a second time after 5,000 reconciles: contenders in Java, and Bellerophon beside them")
	flags.DurationVar(&options.Limit, "limit", 0, "begin no round that would not be over after this time, such as 14m; 0 is no limit")
	flags.IntVar(&options.Ideal, "ideal", 50, "how many objects the ideal client makes in each round: 0 to 1000; 0 leaves it out, and rejects no round")
	flags.Float64Var(&options.Tolerance, "tolerance", 0.1, "by how much the ideal client's time may differ from the median before a round is rejected")
	return command
}
