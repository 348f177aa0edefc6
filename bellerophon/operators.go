package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// asked is the operator that a command asks, by its flags.
type asked struct {
	server     ask.Server
	deployed   ask.Deployed
	kubeconfig string
	output     string
}

// The range of --timeout.
const (
	minTimeout = 100 * time.Millisecond
	maxTimeout = 10 * time.Minute
)

// addFlags adds the flags of the commands that print an operator's answers.
func (a *asked) addFlags(command *cobra.Command) {
	a.addServerFlags(command)
	command.Flags().DurationVar(&a.server.Timeout, "timeout", ask.DefaultTimeout, "how long the operator may take to answer, 100ms to 10m; with --follow, how long it may show no sign of life")
	command.Flags().StringVarP(&a.output, "output", "o", "text", "text or json")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// addServerFlags adds the flags that say where the operator is.
func (a *asked) addServerFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&a.server.URL, "server", "http://127.0.0.1:8080", "the URL of the operator's metrics server")
	flags.StringVar(&a.server.TokenFile, "token-file", "", "a file with a bearer token for the server")
	flags.StringVar(&a.server.Authorities, "certificate-authority", "", "a file with the authority of the server's certificate; default the authorities of the system")
	flags.BoolVar(&a.server.Insecure, "insecure-skip-tls-verify", false, "do not verify the server's certificate, which it signs itself by default")
	flags.StringVar(&a.deployed.Namespace, "operator-namespace", "", "forward a port to the operator's pods in this namespace, and ask there")
	flags.StringVar(&a.deployed.Selector, "operator-selector", "app.kubernetes.io/name=bellerophon-operator", "with --operator-namespace: the labels of the pods")
	flags.StringVar(&a.kubeconfig, "kubeconfig", "", "with --operator-namespace: the kubeconfig file; default as kubectl")
	command.MarkFlagsMutuallyExclusive("server", "operator-namespace")
}

// answers asks the operator, and shows each answer as text or as JSON. With several pods, the better answer counts.
func answers[T any](ctx context.Context, of *asked, q ask.Question, isBetter func(one, than T) bool, text func(T) error) error {
	each, err := shown(of.output, text)
	if err != nil {
		return err
	}
	question, err := asking(of, q, isBetter)
	if err != nil {
		return err
	}
	return question(ctx, each)
}

// asking returns what asks the operator. With several pods, the better answer counts.
func asking[T any](of *asked, q ask.Question, isBetter func(one, than T) bool) (question func(ctx context.Context, each func(T) error) error, err error) {
	if t := of.server.Timeout; t < minTimeout || t > maxTimeout {
		return nil, fmt.Errorf("--timeout is %v; allowed are %v to %v", t, minTimeout, maxTimeout)
	}
	if of.deployed.Namespace == "" {
		return func(ctx context.Context, each func(T) error) error { return ask.Ask(ctx, of.server, q, each) }, nil
	}
	if err := of.connect(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, each func(T) error) error {
		return ask.Pods(ctx, of.deployed, of.server, q, isBetter, each)
	}, nil
}

// connect reads the kubeconfig. From then on client-go logs nothing: it logs each forwarded connection that ends, and the
// commands say themselves what they lost.
func (a *asked) connect() (err error) {
	klog.SetLogger(logr.Discard())
	a.deployed.Config, err = connect.Config(a.kubeconfig)
	return err
}

// stateQuestion asks for the state of an operator.
var stateQuestion = ask.Question{Path: "/debug/manager"}

// leader returns the server and the state of the operator: of the replica that leads if there are several pods. Ports are forwarded
// until the group ends.
func (a *asked) leader(ctx context.Context, group *lifecycle.Group) (server ask.Server, state introspection.State, err error) {
	if a.deployed.Namespace == "" {
		return a.server, state, ask.Ask(ctx, a.server, stateQuestion, func(now introspection.State) error { state = now; return nil })
	}
	if err := a.connect(); err != nil {
		return a.server, state, err
	}
	return ask.Best(ctx, group, a.deployed, a.server, stateQuestion, leads)
}

// leads reports whether the answer of a replica is better because it leads.
func leads(one, than introspection.State) bool {
	return one.Leader != nil && one.Leader.Leads && (than.Leader == nil || !than.Leader.Leads)
}

// isJSON reports whether an output is JSON and not text.
func isJSON(output string) (bool, error) {
	switch output {
	case "text", "json":
		return output == "json", nil
	}
	return false, fmt.Errorf("--output is %q; allowed are text and json", output)
}

// shown returns what shows an answer: text, or the answer as JSON.
func shown[T any](output string, text func(T) error) (func(T) error, error) {
	asJSON, err := isJSON(output)
	if err != nil || !asJSON {
		return text, err
	}
	encoder := json.NewEncoder(screen.New(os.Stdout))
	return func(answer T) error { return encoder.Encode(answer) }, nil
}
