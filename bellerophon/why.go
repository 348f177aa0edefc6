package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/why"
	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/spf13/cobra"
)

func newWhy() *cobra.Command {
	var server why.Server
	var deployed why.Deployed
	var namespace, output, kubeconfig string
	var follow bool
	command := &cobra.Command{
		Use:   "why RESOURCE/NAME",
		Short: "Ask a running operator why it reconciled an object",
		Long: `Asks the metrics server of an operator for the last attempts to reconcile an object. For each
attempt it prints the events that led to it with the fields that they changed, what the attempt
waited for, what it wrote, and how it ended. No value of a field is printed.

The operator may be any program with a manager of Bellerophon. "bellerophon up" prints the
address of its operator. With --operator-namespace, a port is forwarded to the operator's pods
in a cluster. The user of the token must be allowed to get /debug/why: see docs/usage.md.`,
		Example: `  bellerophon why sheroes/pegasus --server http://127.0.0.1:8080
  bellerophon why heroes/bellerophon --namespace stables --follow
  bellerophon why heroes/bellerophon --operator-namespace bellerophon --token-file token
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
			if deployed.Namespace == "" {
				return server.Ask(command.Context(), args[0], namespace, follow, tell)
			}
			var err error
			if deployed.Config, err = connect.Config(kubeconfig); err != nil {
				return err
			}
			return deployed.Ask(command.Context(), server, args[0], namespace, follow, tell)
		},
	}
	flags := command.Flags()
	flags.StringVar(&server.URL, "server", "http://127.0.0.1:8080", "the URL of the operator's metrics server")
	flags.StringVar(&server.TokenFile, "token-file", "", "a file with a bearer token for the server")
	flags.StringVar(&server.Authorities, "certificate-authority", "", "a file with the authority of the server's certificate; default the authorities of the system")
	flags.BoolVar(&server.Insecure, "insecure-skip-tls-verify", false, "do not verify the server's certificate, which it signs itself by default")
	flags.StringVar(&deployed.Namespace, "operator-namespace", "", "forward a port to the operator's pods in this namespace, and ask there")
	flags.StringVar(&deployed.Selector, "operator-selector", "app.kubernetes.io/name=bellerophon-operator", "with --operator-namespace: the labels of the pods")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "with --operator-namespace: the kubeconfig file; default as kubectl")
	flags.StringVarP(&namespace, "namespace", "n", "default", "the namespace of the object")
	flags.BoolVarP(&follow, "follow", "f", false, "go on with further attempts until Ctrl-C")
	flags.StringVarP(&output, "output", "o", "text", "text or json")
	command.MarkFlagsMutuallyExclusive("server", "operator-namespace")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}
