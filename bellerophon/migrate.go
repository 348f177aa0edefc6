package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/migrate"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/spf13/cobra"
)

func newMigrate() *cobra.Command {
	var options migrate.Options
	var kubeconfig, output string
	command := &cobra.Command{
		Use:   "migrate [DEFINITION...]",
		Short: "Rewrite objects in the version that their definition stores now",
		Long: `After an upgrade or a rollback of a resource definition, objects stay in the version in which they were
stored until they are written the next time. Until then, the definition cannot lose that version. This
command rewrites them, without a change of their content, and says so in status.storedVersions of the
definition.

By default it does so for the kinds of Bellerophon. Each other definition can be named, as plural.group.

It can be interrupted, and run again. It needs the permissions to list the objects, to patch them or their
status, and to patch the status of the definition.`,
		Example: `  bellerophon migrate --dry-run
  bellerophon migrate
  bellerophon migrate heroes.stable.bellerophon.io --output json`,
		RunE: func(command *cobra.Command, definitions []string) error {
			config, err := clusterOf(command.Context(), kubeconfig, output)
			if err != nil {
				return err
			}
			stderr := screen.New(os.Stderr)
			options.Definitions = definitions
			options.Progress = func(definition string, done, left int) {
				if line := fmt.Sprintf("%s: %d done, %d left", definition, done, left); stderr.IsLive() {
					stderr.Live(line)
				} else if left > 0 {
					stderr.Println(line)
				}
			}
			err = migrate.Run(command.Context(), config, options, printMigrated(output, options.DryRun))
			stderr.Live()
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster; default as kubectl")
	flags.BoolVar(&options.DryRun, "dry-run", false, "only show what would be rewritten")
	flags.StringVarP(&output, "output", "o", "text", "text, or json for a document for each definition")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// printMigrated returns a function that prints a kind whose objects were rewritten, or would be.
func printMigrated(output string, dryRun bool) func(migrate.Kind) {
	if output == "json" {
		encoder := json.NewEncoder(os.Stdout)
		return func(kind migrate.Kind) { _ = encoder.Encode(kind) }
	}
	stdout := screen.New(os.Stdout)
	word := "rewritten"
	if dryRun {
		word = "would rewrite"
	}
	return func(kind migrate.Kind) {
		said := word
		if !kind.IsOld() {
			said = "up to date"
		}
		stdout.Println(fmt.Sprintf("%-13s  %s", said, screen.Clean(kind.String())))
	}
}
