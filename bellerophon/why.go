package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/why"
	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/spf13/cobra"
)

func newWhy() *cobra.Command {
	var server why.Server
	var namespace, output string
	var follow bool
	command := &cobra.Command{
		Use:   "why RESOURCE/NAME",
		Short: "Ask a running operator why it reconciled an object",
		Long: `Asks the metrics server of an operator for the last attempts to reconcile an object. For each
attempt it prints the events that led to it with the fields that they changed, what the attempt
waited for, what it wrote, and how it ended. No value of a field is printed.

The operator may be any program with a manager of Bellerophon. "bellerophon up" prints the
address of its operator. In a cluster, forward a port first, and give a token whose user may
get /debug/why: see docs/usage.md.`,
		Example: `  bellerophon why sheroes/pegasus --server http://127.0.0.1:8080
  bellerophon why heroes/bellerophon --namespace stables --follow
  bellerophon why sheroes/pegasus --output json | jq '.controllers[].attempts[-1].causes'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			stdout := screen.New(os.Stdout)
			printer := why.NewPrinter(stdout)
			tell := func(answer history.Answer) error {
				printer.Print(answer, args[0], namespace, follow)
				return nil
			}
			switch output {
			case "text":
			case "json":
				encoder := json.NewEncoder(stdout)
				tell = func(answer history.Answer) error { return encoder.Encode(answer) }
			default:
				return fmt.Errorf("--output is %q; allowed are text and json", output)
			}
			return server.Ask(command.Context(), args[0], namespace, follow, tell)
		},
	}
	flags := command.Flags()
	flags.StringVar(&server.URL, "server", "http://127.0.0.1:8080", "the URL of the operator's metrics server")
	flags.StringVar(&server.TokenFile, "token-file", "", "a file with a bearer token for the server")
	flags.StringVar(&server.Authorities, "certificate-authority", "", "a file with the authority of the server's certificate; default the authorities of the system")
	flags.BoolVar(&server.Insecure, "insecure-skip-tls-verify", false, "do not verify the server's certificate, which it signs itself by default")
	flags.StringVarP(&namespace, "namespace", "n", "default", "the namespace of the object")
	flags.BoolVarP(&follow, "follow", "f", false, "go on with further attempts until Ctrl-C")
	flags.StringVarP(&output, "output", "o", "text", "text or json")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}
