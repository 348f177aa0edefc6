package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/uninstall"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
)

func newUninstall() *cobra.Command {
	var options uninstall.Options
	var kubeconfig, output string
	var dryRun bool
	command := &cobra.Command{
		Use:   "uninstall",
		Short: "Take the operator out of a cluster, so that nothing waits for it",
		Long: `Removes what a release of the chart bellerophon-operator has made: the operator, its webhooks, its
permissions, its Leases, and Helm's records of the release. It also works for a release that Helm has
uninstalled, or never knew.

The objects of the kinds stay by default, with all that they own: servers go on without an operator.
They lose the finalizers that only the operator removes, and their old versions are no longer served,
so that they can be changed and deleted. With --everything they are deleted first, while the operator
runs: it takes the last backups. Their definitions go after them.

It can be interrupted, and run again: it goes on with what is left.`,
		Example: `  bellerophon uninstall --dry-run
  bellerophon uninstall --namespace bellerophon --release bellerophon
  bellerophon uninstall --everything
  bellerophon uninstall --everything --force   # no operator runs any more
  bellerophon uninstall --dry-run --output json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := clusterOf(command.Context(), kubeconfig, output)
			if err != nil {
				return err
			}
			plan, err := uninstall.Look(command.Context(), config, options)
			if err != nil {
				return err
			}
			show := printStep(output, dryRun)
			if !plan.Changes() {
				fmt.Fprintf(os.Stderr, "there is no release %s in the namespace %s; --release and --namespace name another one\n", options.Release, options.Namespace)
			}
			if dryRun {
				for _, step := range plan.Steps {
					show(step)
				}
				return nil
			}
			return plan.Run(command.Context(), show)
		},
	}
	flags := command.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster; default as kubectl")
	flags.StringVar(&options.Release, "release", "bellerophon", "name of the release")
	flags.StringVarP(&options.Namespace, "namespace", "n", "bellerophon", "namespace of the release")
	flags.BoolVar(&options.Everything, "everything", false, "delete the objects of the kinds in all namespaces too, with what they own, and the definitions")
	flags.BoolVar(&options.Force, "force", false, "with --everything: do not wait for the operator, and take no last backup")
	flags.DurationVar(&options.Timeout, "timeout", 5*time.Minute, "how long each object may take to go, 1s to 1h")
	flags.BoolVar(&dryRun, "dry-run", false, "only show what would go")
	flags.StringVarP(&output, "output", "o", "text", "text, or json for a document for each step")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// clusterOf returns the connection to the cluster of a command that prints text or JSON.
func clusterOf(ctx context.Context, kubeconfig, output string) (*rest.Config, error) {
	if output != "text" && output != "json" {
		return nil, fmt.Errorf("--output is %q; allowed is text or json", output)
	}
	config, err := connect.Config(kubeconfig)
	if err != nil {
		return nil, err
	}
	_, err = connect.Check(ctx, config)
	return config, err
}

// printStep returns a function that prints a step that was carried out, or that would be.
func printStep(output string, dryRun bool) func(uninstall.Step) {
	if output == "json" {
		encoder := json.NewEncoder(os.Stdout)
		return func(step uninstall.Step) { _ = encoder.Encode(step) }
	}
	words := map[string]string{uninstall.Delete: "deleted", uninstall.Change: "changed", uninstall.Keep: "stays"}
	if dryRun {
		words = map[string]string{uninstall.Delete: "would delete", uninstall.Change: "would change", uninstall.Keep: "would stay"}
	}
	stdout := screen.New(os.Stdout)
	return func(step uninstall.Step) {
		stdout.Println(fmt.Sprintf("%-12s  %s", words[step.Action], screen.Clean(step.String())))
	}
}
