package main

import (
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/replay"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/spf13/cobra"
)

func newShadow() *cobra.Command {
	var options replay.Options
	var output string
	command := &cobra.Command{
		Use:   "shadow RECORDING",
		Short: "Run this version beside an operator that records, and compare the decisions",
		Long: `Runs the reconcilers of this program on what another version of the operator is recording into
a folder with --record. They get the same events and the same answers; their writes are captured,
and nothing is sent. Prints each attempt that decides otherwise, one to two seconds after it ended.
It ends with Ctrl-C, or when the other operator ends. The exit code is 1 if there was a difference.

That is how an upgrade is tried: run the new version as a shadow, and upgrade when it is silent.`,
		Example: `  bellerophon shadow /var/lib/bellerophon/recording
  bellerophon shadow recording --object stables/pegasus
  bellerophon shadow recording --output json | jq .lines`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) (err error) {
			if options.JSON, err = isJSON(output); err != nil {
				return err
			}
			options.Path = args[0]
			return replay.Shadow(command.Context(), options, screen.New(os.Stdout))
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Object, "object", "", "compare only this object: NAME in namespace default, or NAMESPACE/NAME")
	flags.StringVarP(&output, "output", "o", "text", "text or json: one object for each difference")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}
