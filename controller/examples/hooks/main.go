// Package main is an example: it runs hooks, which are executables of any language, when objects of a cluster
// change or a time comes. It speaks the protocol of shell-operator: see README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], logger)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		logger.Error("the hooks have ended", "error", err)
		os.Exit(1)
	}
}

// command runs the hooks of the directory that the arguments name.
func command(ctx context.Context, arguments []string, logger *slog.Logger) error {
	options := Options{Logger: logger}
	flags := flag.NewFlagSet("hooks", flag.ContinueOnError)
	flags.StringVar(&options.Directory, "hooks", "hooks", "the `directory` of the hooks")
	flags.DurationVar(&options.Timeout, "timeout", defaultTimeout, "the longest run of a hook, which is stopped then")
	flags.StringVar(&options.Manager.MetricsAddress, "metrics", "", "the `address` that serves metrics")
	flags.StringVar(&options.Manager.HealthAddress, "health", "", "the `address` that serves /healthz and /readyz")
	flags.StringVar(&options.Webhooks.Service, "webhook-service", "", "the `namespace/name` of the Service through which API servers reach webhooks")
	flags.StringVar(&options.Webhooks.URL, "webhook-url", "", "the `URL` at which API servers reach webhooks without a Service, such as https://10.0.0.7")
	flags.StringVar(&options.Webhooks.Address, "webhook-address", webhook.DefaultAddress, "the `address` that serves webhooks")
	flags.StringVar(&options.Webhooks.Name, "webhook-name", "", "the `name` of the webhook configurations; default name.namespace of the Service, or hooks")
	flags.Func("env", "the `NAME` of a further variable that hooks get; may be repeated", func(name string) error {
		if name == "" || strings.ContainsAny(name, "= ") {
			return fmt.Errorf("%q is not the name of a variable", name)
		}
		options.Env = append(options.Env, name)
		return nil
	})
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown arguments %q", flags.Args())
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("reading how to reach the cluster: %w", err)
	}
	return Run(ctx, config, options)
}
