package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/spf13/cobra"
)

// Commands returns the commands that read the folder of a run.
func Commands() []*cobra.Command {
	return []*cobra.Command{reportCommand(), goalsCommand(), inspectCommand()}
}

func reportCommand() *cobra.Command {
	var asJSON bool
	var out string
	command := &cobra.Command{
		Use:   "report DIR...",
		Short: "Write report.md, report.html and pictures into the folder of a run, or one page of several runs",
		Long: `Writes into the folder of a run:

  report.md       goals and medians, with their spread and their ratio to Bellerophon; rounds
                  that are not complete; versions, machine, and the command that repeats the run
  report.html     the same in one file, with interactive charts and the time series of one turn
                  of each scenario and setting
  series.openmetrics.gz
                  these time series, if Prometheus is installed and the run's data exists;
                  otherwise report.html uses the file of an earlier report
  dashboard.json  the panels of report.html for Grafana, if there are time series. Its source is
                  the Prometheus that inspect starts
  pictures/       the charts as PNG, with the time series of the default settings, if Chromium
                  is installed

With --out, it writes one Markdown page of several runs instead: who wins at a glance, the goals, and
links to the report.md of each run. Several folders count as one run, as for goals.`,
		Example: `  go run ./bench report bin/bench/bursts
  go run ./bench report --out all.md bin/bench/bursts bin/bench/storms`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			if out == "" && len(arguments) > 1 {
				return errors.New("write a report: several folders make one page; name its file with --out, or give one folder")
			}
			var written Written
			var err error
			if out != "" {
				written, err = WriteTogether(out, arguments)
			} else {
				written, err = Write(command.Context(), arguments[0])
			}
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
			fmt.Fprintf(command.OutOrStdout(), "%d of %d rounds are complete; Bellerophon is %s in %d comparisons and %s in %d\n", written.Counts, written.Rounds,
				paint(screen.Red, "worse"), len(written.Losses), paint(screen.Green, "better"), len(written.Wins))
			return nil
		},
	}
	addJSON(command, &asJSON)
	command.Flags().StringVar(&out, "out", "", "the Markdown file for one page of all folders")
	return command
}

// verdictColours maps verdicts to the colours of a terminal.
var verdictColours = map[Verdict]screen.Colour{Met: screen.Green, Open: screen.Yellow, Missed: screen.Red}

func goalsCommand() *cobra.Command {
	var asJSON, check bool
	command := &cobra.Command{
		Use:   "goals DIR...",
		Short: "Print which goals of the project a run meets",
		Long: `Prints one line per goal with tabs between the fields: goal, its name, the peer, the value, the
target, and the verdict. The verdict is met, open, missed or not measured. The last line counts them.

The value is the median of the ratios within turns, Bellerophon's value divided by the peer's. There
are two exceptions: a goal whose peer is floor or none has Bellerophon's own value, and converge-rate
divides Bellerophon's rate by the ideal client's. The first text after the value is its 95 % interval.
No complete round is left out.

A goal is met if the whole interval reaches the target, and missed if no part of it does. It is open
between these, and with fewer than 6 turns. It is not measured without a value, and where the size, a
setting or the warmth of a JVM differs from what the goal names, and where a p99 has fewer than
1,000 latencies.

Several folders are judged as one run, if Bellerophon had the same program and settings in all of
them. Rounds of the same scenario and size are then further turns. So a long run can be made in parts.
Of a peer, the newest program and settings count; stderr names the rounds that are left out.

The exit code is 0, whatever the verdicts are. With --check it is 1 if a goal is missed; a goal
that is open or not measured is no failure.`,
		Example: "  go run ./bench goals bin/bench/bursts bin/bench/storms",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			all, err := readAll(arguments)
			if err != nil {
				return err
			}
			for _, left := range all.older {
				fmt.Fprintln(command.ErrOrStderr(), "left out:", left)
			}
			summary := Summarize(all.run, all.rounds)
			if asJSON {
				if err := printJSON(command.OutOrStdout(), summary.Goals); err != nil {
					return err
				}
			} else {
				paint := painter(command.OutOrStdout())
				for _, goal := range summary.Goals {
					line := strings.TrimSuffix(goal.Line(), string(goal.Verdict))
					fmt.Fprintln(command.OutOrStdout(), line+paint(verdictColours[goal.Verdict], string(goal.Verdict)))
				}
				fmt.Fprintln(command.OutOrStdout(), summary.Verdicts())
			}
			if missed := verdicts(summary.Goals)[Missed]; check && missed > 0 {
				return fmt.Errorf("check goals of %s: %d missed; the lines above name them", strings.Join(arguments, ", "), missed)
			}
			return nil
		},
	}
	addJSON(command, &asJSON)
	command.Flags().BoolVar(&check, "check", false, "exit with 1 if a goal is missed")
	return command
}

func inspectCommand() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "inspect DIR",
		Short: "Open the time series of a run in a browser",
		Long: `Starts a Prometheus on a copy of the run's data, and serves a page with the time series of all
contenders side by side. Without that data, promtool imports the series that the run keeps: one turn
of each scenario and setting. Both programs are in the Debian package prometheus.

inspect prints these addresses, all on loopback:

  the run     the page
  graphs      ten of its panels in Prometheus, at the time of the first turn
  Prometheus  the data source for Grafana
  dashboard   the file to import into Grafana, with the same panels

Ctrl-C stops everything and removes the copy.`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			return Inspect(command.Context(), arguments[0], func(opened Opened) {
				if asJSON {
					_ = printJSON(command.OutOrStdout(), opened)
					return
				}
				paint := painter(command.OutOrStdout())
				fmt.Fprintf(command.OutOrStdout(), "the run      %s\ngraphs       %s\nPrometheus   %s\ndashboard    %s\nCtrl-C stops them.\n",
					paint(screen.Bold, opened.Page), opened.Graphs, opened.Prometheus, opened.Dashboard)
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
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// painter returns a function that colours texts if the output is a terminal with colours.
func painter(out io.Writer) func(screen.Colour, string) string {
	if file, is := out.(*os.File); is {
		return screen.New(file).Paint
	}
	return screen.To(out).Paint
}
