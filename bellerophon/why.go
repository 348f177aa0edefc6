package main

import (
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/why"
	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/spf13/cobra"
)

func newWhy() *cobra.Command {
	var of asked
	var namespace string
	var follow bool
	command := &cobra.Command{
		Use:   "why RESOURCE/NAME",
		Short: "Ask a running operator why it reconciled an object",
		Long: `Asks the metrics server of an operator for the last attempts to reconcile an object. For each
attempt it prints the events that led to it with the fields that they changed, what the attempt
waited for, what it wrote, and how it ended. No value of a field is printed.

The operator may be any program with a manager of Bellerophon. "bellerophon up" prints the
address of its operator. With --operator-namespace, a port is forwarded to the operator's pods
in a cluster. The user of the token must be allowed to get /debug/why: see docs/usage.md.

With --follow, why says so if the operator ends or its pod is replaced, and asks again for ten minutes.`,
		Example: `  bellerophon why sheroes/pegasus --server http://127.0.0.1:8080
  bellerophon why heroes/bellerophon --namespace stables --follow
  bellerophon why heroes/bellerophon --operator-namespace bellerophon --token-file token
  bellerophon why sheroes/pegasus --output json | jq '.controllers[].attempts[-1].causes'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			printer := why.NewPrinter(screen.New(os.Stdout))
			show := answers[history.Answer]
			if follow {
				show = followAnswers[history.Answer]
			}
			return show(command.Context(), &of, why.Question(args[0], namespace, follow), why.IsNewer, func(answer history.Answer) error {
				printer.Print(answer, args[0], namespace, follow)
				return nil
			})
		},
	}
	of.addFlags(command)
	command.Flags().StringVarP(&namespace, "namespace", "n", "default", "the namespace of the object")
	command.Flags().BoolVarP(&follow, "follow", "f", false, "go on with further attempts until Ctrl-C")
	return command
}
