package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/spf13/cobra"
)

// Commands are the commands that read the folder of a run.
func Commands() []*cobra.Command {
	return []*cobra.Command{reportCommand(), goalsCommand(), inspectCommand()}
}

func reportCommand() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "report DIR",
		Short: "Write report.md, report.html and pictures into the folder of a run",
		Long: `Writes into the folder of a run:

  report.md      the medians, their spread and their ratio to Bellerophon's; rounds that do
                 not count; versions, machine, and how to repeat it
  report.html    the same in one file, with charts that answer to the mouse, and the time
                 series of one turn of each scenario and setting if Prometheus is installed
  pictures/      the charts as PNG, time series of the default settings alone, if Chromium
                 is installed`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			written, err := Write(command.Context(), arguments[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(command.OutOrStdout(), written)
			}
			paint := painter(command.OutOrStdout())
			for _, file := range written.Files {
				fmt.Fprintln(command.OutOrStdout(), file)
			}
			for _, reason := range written.LeftOut {
				fmt.Fprintln(command.ErrOrStderr(), painter(command.ErrOrStderr())(screen.Yellow, "left out:"), reason)
			}
			fmt.Fprintf(command.OutOrStdout(), "%d of %d rounds count; Bellerophon is %s in %d comparisons and %s in %d\n", written.Counts, written.Rounds,
				paint(screen.Red, "worse"), len(written.Losses), paint(screen.Green, "better"), len(written.Wins))
			return nil
		},
	}
	addJSON(command, &asJSON)
	return command
}

func goalsCommand() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "goals DIR",
		Short: "Say which goals of the project a run meets",
		Long: `Prints a line for each goal: goal, its name, the peer, what was measured, the target, and
met or missed, with tabs between them. What was measured is a ratio of medians, Bellerophon's by
the peer's, except where the peer is floor or none, and for converge-rate, which is our rate by
the ideal client's. A goal is met if its value is, in the scenario and size that it names, with a
warm JVM where it asks for one, and as a median of at least 5 rounds that are not noisy; what
was measured says what of that is not so. A goal that was not measured is missed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			run, rounds, err := read(arguments[0])
			if err != nil {
				return err
			}
			goals := Summarize(run, rounds).Goals
			if asJSON {
				return printJSON(command.OutOrStdout(), goals)
			}
			paint := painter(command.OutOrStdout())
			for _, goal := range goals {
				colour := screen.Red
				if goal.Met {
					colour = screen.Green
				}
				line := strings.TrimSuffix(goal.Line(), goal.Verdict())
				fmt.Fprintln(command.OutOrStdout(), line+paint(colour, goal.Verdict()))
			}
			return nil
		},
	}
	addJSON(command, &asJSON)
	return command
}

func inspectCommand() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "inspect DIR",
		Short: "Open the time series of a run in a browser",
		Long: `Starts a Prometheus on a copy of the data of a run, and serves a page with the time series of
all contenders side by side; both on loopback. It prints where they are; Ctrl-C ends both and
leaves nothing.`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			return Inspect(command.Context(), arguments[0], func(opened Opened) {
				if asJSON {
					_ = printJSON(command.OutOrStdout(), opened)
					return
				}
				paint := painter(command.OutOrStdout())
				fmt.Fprintf(command.OutOrStdout(), "the run      %s\nPrometheus   %s\nCtrl-C ends both.\n", paint(screen.Bold, opened.Page), opened.Prometheus)
			})
		},
	}
	addJSON(command, &asJSON)
	return command
}

func addJSON(command *cobra.Command, asJSON *bool) {
	command.Flags().BoolVar(asJSON, "json", false, "print JSON, for scripts")
}

func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("printing JSON: %w", err)
	}
	return nil
}

// painter colours texts where the output is a terminal that wants it.
func painter(out io.Writer) func(screen.Colour, string) string {
	if file, is := out.(*os.File); is {
		return screen.New(file).Paint
	}
	return screen.To(out).Paint
}
