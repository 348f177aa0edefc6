// Webhooks validates a custom resource, sets its defaults, and converts it between two versions. It issues
// its certificate and configures the API server itself.
//
//	kubectl apply -f controller/examples/webhooks/crd
//	go run ./controller/examples/webhooks ADDRESS
//
// The API server must reach the address, such as 10.0.0.7:9443. In a cluster it would be a Service instead.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	v1 "github.com/bellerophon-io/bellerophon/controller/examples/webhooks/api/v1"
	v2 "github.com/bellerophon-io/bellerophon/controller/examples/webhooks/api/v2"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "webhooks: give the address to listen on, such as 10.0.0.7:9443")
		os.Exit(2) //nolint:gocritic // what is deferred ends with the process.
	}
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "webhooks:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")) // Without KUBECONFIG: the cluster that it runs in.
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	server, err := newServer(config, webhook.Options{
		Address: address,
		URL:     "https://" + host, // The server adds its port.
		Name:    "quests.example.com",
	})
	if err != nil {
		return err
	}
	return server.Run(ctx)
}

// newServer makes a server with all functions of quests.
func newServer(config *rest.Config, options webhook.Options) (*webhook.Server, error) {
	kinds := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(kinds), v2.AddToScheme(kinds)); err != nil {
		return nil, err
	}
	server, err := webhook.New(config, kinds, options)
	if err != nil {
		return nil, err
	}
	return server, errors.Join(
		webhook.Validate(server, validate),
		webhook.Default(server, setDefaults),
		webhook.Convert(server, toV2, toV1),
	)
}
