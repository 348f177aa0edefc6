// Command process is the operator of the scenario kinds on Bellerophon: one manager with a controller for each
// of many kinds. It has the environment and does the work that bench/contract.md asks of such a program.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/footprint"
	"github.com/bellerophon-io/bellerophon/bellerophon/processors"
	"github.com/bellerophon-io/bellerophon/bench/manykinds"
	"github.com/bellerophon-io/bellerophon/controller"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	n, err := number("KINDS", 1, manykinds.Most)
	if err != nil {
		return err
	}
	options := controller.Options{
		Logger:         slog.New(slog.NewTextHandler(os.Stderr, nil)),
		MetricsAddress: net.JoinHostPort("127.0.0.1", os.Getenv("METRICS_PORT")),
	}
	if os.Getenv("WORKERS") != "" {
		if options.Workers, err = number("WORKERS", 1, 1024); err != nil {
			return err
		}
	}
	config, err := connect.Config("")
	if err != nil {
		return err
	}
	manager, err := newManager(config, scheme.Scheme, options, n)
	if err != nil {
		return err
	}
	return processors.Govern(ctx, func(ctx context.Context) error { return footprint.Trim(ctx, manager.Run) })
}

// newManager creates a manager with the controllers of n kinds, which it adds to a scheme.
func newManager(config *rest.Config, types *runtime.Scheme, options controller.Options, n int) (*controller.Manager, error) {
	metav1.AddToGroupVersion(types, manykinds.GroupVersion)
	kinds := kinds()[:n]
	for i, kind := range kinds {
		kind.register(types, i)
	}
	manager, err := controller.NewManager(config, types, options)
	if err != nil {
		return nil, err
	}
	for i, kind := range kinds {
		if err := kind.addTo(manager, i); err != nil {
			return nil, err
		}
	}
	return manager, nil
}

// number reads a number from the environment.
func number(name string, least, most int) (int, error) {
	text := os.Getenv(name)
	value, err := strconv.Atoi(text)
	if err != nil || value < least || value > most {
		return 0, fmt.Errorf("%s is %q; give a number from %d to %d", name, text, least, most)
	}
	return value, nil
}
