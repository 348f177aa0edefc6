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
		Short: "Run contenders through scenarios and write the outcome to a folder",
		Long: `Run measures contenders in scenarios, each round on its own API server, and writes the
outcome to a folder. An interrupted run resumes when it is started again with the same flags.
--contenders may differ then, and without --until, --turns may be higher.

Before anything is timed, each build of a contender is checked once against bench/contract.md.
The check takes 1 to 3 minutes per contender. A contender is left out if it fails the check,
or if its toolchain is missing or too old.

The scenarios are

` + scenario.Describe() + `
A scenario can be given with a size, such as burst:n=200, storm:n=100:m=10,
steady:n=500:load=75 or idle:n=1000:seconds=300. Instead of names, tiny, small and medium
stand for all scenarios in the sizes of CI, of make bench and of make bench-medium.

With rtt, as in burst:n=1000:rtt=10, there is a network between contender and API server
with a round trip of that many milliseconds: 1 to 1000. The load has no network.`,
		Example: "  go run ./bench run --contenders bellerophon,controller-runtime,ideal --scenarios burst:n=200 --turns 5 --out bin/mine",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			options.Log = os.Stderr
			rules, err := report.Rules()
			if err != nil {
				return err
			}
			return harness.Run(command.Context(), options, rules, screen.New(os.Stdout))
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Contenders, "contenders", "all", "the contenders, separated by commas, or all")
	flags.StringVar(&options.Scenarios, "scenarios", "all", "the scenarios, separated by commas, or all; or tiny, small or medium")
	flags.StringVar(&options.Dir, "out", "", "the folder for the outcome")
	flags.StringVar(&options.Conformance, "conformance", "check", "check: check the contenders whose current build was not checked yet; skip: check none")
	flags.BoolVar(&options.Full, "full", false, "use the large sizes of the scenarios; they take hours")
	flags.IntVar(&options.Turns, "turns", 2, "how often everything is measured, alternately forwards and backwards: 1 to 100")
	flags.StringVar(&options.Until, "until", "", "a measure and a width, such as converge_seconds=0.1: give a scenario no further turn after 8 turns or more if the 95 % intervals of its ratios are that narrow; --turns is then the largest number")
	flags.StringVar(&options.Workers, "workers", "", "numbers of concurrent reconciles, such as 1,8,32: measure bursts and steady loads with each, and with the defaults")
	flags.StringVar(&options.Memory, "memory", "", "memory limits, such as 512Mi,256Mi: measure bursts and returns with each, and with the defaults")
	flags.IntVar(&options.SweepTurns, "sweep-turns", 0, "in how many turns --workers and --memory are measured: 1 to 100 (default 2)")
	flags.BoolVar(&options.Warm, "warm", false, "measure bursts, storms and steady loads a second time, after a warm-up of 5,000 reconciles, for contenders in Java and for Bellerophon")
	flags.DurationVar(&options.Limit, "limit", 0, "start no round that would not end within this time, such as 14m; 0 means no limit")
	flags.StringVar(&options.Cores, "cores", "shared", "shared: contenders, servers and load share all processors; own: a contender has one alone, and the servers and the load have the others")
	flags.StringVar(&options.Cgroup, "cgroup", "", "hard limits of each contender, such as cpu=1,memory=256Mi, in a control group; the kernel kills a contender that needs more memory")
	flags.IntVar(&options.Ideal, "ideal", 50, "how many objects the ideal client creates in each round: 0 to 1000; with 0 it does not run, and no round is marked as noisy")
	flags.Float64Var(&options.Tolerance, "tolerance", 0.1, "by how much the ideal client's time may differ from the median before a round is marked as noisy")
	return command
}
