package main

import (
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/replay"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/spf13/cobra"
)

func newReplay() *cobra.Command {
	var options replay.Options
	var output string
	command := &cobra.Command{
		Use:   "replay RECORDING",
		Short: "Replay what an operator recorded, and compare its decisions",
		Long: `Gives the reconcilers of this program what an operator has recorded with --record: the events,
the requests to reconcile, and the answers of the API server, in virtual time. Nothing is sent to
a cluster. Prints each attempt that decides otherwise than in the recording: another request,
another body, another result. The exit code is 1 then.

With --to-test it writes a Go test of the last failure of an object, or of its last write. The
test fails as long as that happens, and comes with the part of the recording that it needs.`,
		Example: `  bellerophon operator --record /var/lib/bellerophon/recording
  bellerophon replay /var/lib/bellerophon/recording
  bellerophon replay recording --object stables/pegasus --to-test ./incidents
  bellerophon replay recording --output json | jq '.differences[].lines'`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) (err error) {
			if options.JSON, err = isJSON(output); err != nil {
				return err
			}
			options.Path = args[0]
			return replay.Run(command.Context(), options, screen.New(os.Stdout))
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Object, "object", "", "show only this object: NAME in namespace default, or NAMESPACE/NAME")
	flags.StringVar(&options.ToTest, "to-test", "", "write a test of the object's incident into this folder")
	flags.StringVarP(&output, "output", "o", "text", "text or json")
	_ = command.MarkFlagDirname("to-test")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}
