package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/footprint"
	"github.com/bellerophon-io/bellerophon/bellerophon/processors"
	"github.com/bellerophon-io/bellerophon/bench/peers/controller-runtime/connections"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	tuned := flag.Bool("tuned", false, "use the options that the documentation offers for speed and memory")
	equal := flag.Bool("equal", false, "do all that the public API offers of what Bellerophon does; includes -tuned")
	flag.Parse()
	ctrl.SetLogger(klog.NewKlogr())
	ctx := ctrl.SetupSignalHandler()
	var err error
	if *equal {
		err = processors.Govern(ctx, func(ctx context.Context) error {
			return footprint.Trim(ctx, func(ctx context.Context) error { return run(ctx, true, true) })
		})
	} else {
		err = run(ctx, *tuned, false)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, tuned, equal bool) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1.AddToScheme(scheme); err != nil {
		return err
	}
	config, err := ctrl.GetConfig() // It sets no client-side rate limit.
	if err != nil {
		return err
	}
	grace := 8 * time.Second // The default is longer than the contract allows.
	options := ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsserver.Options{BindAddress: "127.0.0.1:" + os.Getenv("METRICS_PORT")},
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: &grace,
	}
	parallel := 1
	if tuned {
		parallel = tune(&options)
	}
	isElected := false
	if equal {
		equalize(&options)
		if options.Client.HTTPClient, err = connections.Client(config); err != nil {
			return err
		}
		if isElected, err = elect(&options); err != nil {
			return err
		}
	}
	if workers := os.Getenv("WORKERS"); workers != "" {
		if options.Controller.MaxConcurrentReconciles, err = strconv.Atoi(workers); err != nil {
			return fmt.Errorf("WORKERS is %q; give a number", workers)
		}
	}
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	sender := options.Client.HTTPClient
	if sender == nil {
		sender = manager.GetHTTPClient()
	}
	live, err := client.New(config, client.Options{Scheme: scheme, Mapper: manager.GetRESTMapper(), HTTPClient: sender})
	if err != nil {
		return err
	}
	r := &reconciler{Client: manager.GetClient(), live: live, parallel: parallel, compares: equal, unsettled: map[client.ObjectKey]rollout{}}
	if equal {
		r.pace = &pace{}
	}
	first := equal && !isElected // A standby may not write, and its caches are full when it leads.
	if first {
		r.started = make(chan struct{})
	}
	if err := r.setUp(manager); err != nil {
		return err
	}
	var group errgroup.Group
	if first {
		group.Go(func() error {
			defer close(r.started)
			r.createFirst(ctx)
			return nil
		})
	}
	group.Go(func() error { return manager.Start(ctx) })
	return group.Wait()
}
