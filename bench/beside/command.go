package beside

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/spf13/cobra"
)

// Command returns the command that runs two contenders side by side.
func Command() *cobra.Command {
	options := Options{}
	var output string
	command := &cobra.Command{
		Use:   "beside [CONTENDER]",
		Short: "Run Bellerophon and another contender side by side",
		Long: `Runs Bellerophon and another contender, by default quarkus, on one local cluster. Each works in a
namespace of its own. The same objects are created for both, and then changed one after the other.
A live table shows how long they take to become Ready, and what the programs cost. A page shows the
same of both, and each change as a mark. Bellerophon has a page of its own, too. Their URLs are printed.

This is a demonstration: both share the machine. Compare with bench run.`,
		Example: `  go run ./bench beside quarkus
  go run ./bench beside quarkus-container --objects 50 --every 50ms --for 1m --output json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output is %q; allowed are text and json", output)
			}
			if options.Peer = "quarkus"; len(args) == 1 {
				options.Peer = args[0]
			}
			to := screen.New(os.Stdout)
			if output == "json" {
				to = screen.New(os.Stderr)
			}
			sides, err := Run(command.Context(), options, to, os.Stderr)
			if err != nil {
				return err
			}
			if output == "json" {
				encoder := json.NewEncoder(os.Stdout)
				encoder.SetIndent("", "  ")
				return encoder.Encode(sides)
			}
			for _, line := range Table(sides) {
				to.Println(line)
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.IntVar(&options.Objects, "objects", 20, "objects of each, 1 to 1000")
	flags.DurationVar(&options.Every, "every", 200*time.Millisecond, "time between two changes, 10ms to 1m")
	flags.DurationVar(&options.For, "for", 0, "end after this time, 1s to 24h; 0 means with Ctrl-C")
	flags.StringVarP(&output, "output", "o", "text", "text, or json at the end")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}
