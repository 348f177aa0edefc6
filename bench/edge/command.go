package edge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/spf13/cobra"
)

// options are the values of the command line.
type options struct {
	settings                Settings
	quick                   bool
	limit                   time.Duration
	note, from, out, figure string
	output                  string
}

// Command returns the command that measures both forms of the operator.
func Command() *cobra.Command {
	var options options
	command := &cobra.Command{
		Use:   "edge",
		Short: "Measure reactions to events and with polling alone",
		Long: `Edge runs one operator on a local control plane in two forms: with events, for each number of
workers, and with polling alone, for each interval. It measures reactions, requests and bytes,
without changes and with them. docs/edge.md says how, and has the results.

With --from, nothing is measured: the result of a file is shown, and drawn with --figure.`,
		Example: `  go run ./bench edge --quick
  go run ./bench edge --out bin/edge.json --figure bin/edge.svg
  go run ./bench edge --from bench/edge/results/2026-11-25.json --figure docs/edge.svg`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			result, err := options.result(command)
			if err != nil {
				return err
			}
			if options.out != "" {
				if err := result.writeFile(options.out); err != nil {
					return err
				}
			}
			if options.figure != "" {
				if err := result.figure().WriteFile(options.figure); err != nil {
					return err
				}
			}
			return result.print(os.Stdout, options.output == "json")
		},
	}
	flags := command.Flags()
	flags.IntSliceVar(&options.settings.Workers, "workers", usual.Workers, "numbers of workers of the form with events: 1 to 1024, rising")
	flags.DurationSliceVar(&options.settings.Intervals, "intervals", usual.Intervals, "intervals of the form with polling: 100ms to 1m, rising")
	flags.IntVar(&options.settings.PollWorkers, "poll-workers", usual.PollWorkers, "workers of the form with polling: 1 to 1024")
	flags.IntVar(&options.settings.Objects, "objects", usual.Objects, "number of objects: 2 to 10000")
	flags.Float64Var(&options.settings.Rate, "rate", usual.Rate, "changes a second: 0.1 to 1000")
	flags.DurationVar(&options.settings.Outside, "outside", usual.Outside, "how long a repair waits for something outside before it writes: 0 to 1m")
	flags.BoolVar(&options.quick, "quick", false, "take less than a minute: few cells, short windows, 20 objects; the other flags of the measurement do not count")
	flags.DurationVar(&options.limit, "limit", 15*time.Minute, "end with an error after this time; 0 means no limit")
	flags.StringVar(&options.note, "note", "", "what a reader of the result has to know, such as other work of the machine")
	flags.StringVar(&options.from, "from", "", "show the result of this file, and measure nothing")
	flags.StringVar(&options.out, "out", "", "write the result to this file")
	flags.StringVar(&options.figure, "figure", "", "draw the figure into this file")
	flags.StringVarP(&options.output, "output", "o", "text", "text, or json; progress is on standard error")
	return command
}

// result returns the result of a measurement, or of a file.
func (o options) result(command *cobra.Command) (Result, error) {
	if o.output != "text" && o.output != "json" {
		return Result{}, fmt.Errorf("--output is %q; allowed are text and json", o.output)
	}
	if o.from != "" {
		return readResult(o.from)
	}
	settings := o.settings
	settings.Idle, settings.Load = usual.Idle, usual.Load
	if o.quick {
		settings = quick
	}
	if err := settings.validate(); err != nil {
		return Result{}, err
	}
	ctx := command.Context()
	if o.limit > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, o.limit, errors.New("the measurement took longer than --limit"))
		defer cancel()
		ctx = limited
	}
	out := screen.New(os.Stderr)
	out.Println(fmt.Sprintf("%d cells, about %v", len(settings.cells()), settings.duration().Round(time.Second)))
	return measure(ctx, settings, o.note, out)
}
