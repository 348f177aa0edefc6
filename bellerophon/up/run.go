package up

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bellerophon/logging"
	"github.com/bellerophon-io/bellerophon/bellerophon/operator"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen/steps"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/page"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/internal/promserver"
	"k8s.io/client-go/rest"
)

// cleanupTimeout bounds each clean-up after the context has ended.
const cleanupTimeout = 30 * time.Second

// errSettled is the cause that ends a run with UntilSettled once all is settled.
var errSettled = errors.New("settled")

// run is one run of up.
type run struct {
	options Options
	screen  *screen.Screen // where progress goes
	log     *slog.Logger
	zero    time.Time // when seconds begin to count; see Report
	report  Report
	manager *controller.Manager
	isReal  bool // the local cluster's node runs containers
}

// Run runs until ctx ends or, with UntilSettled, until all is settled. It then removes what it
// created, unless Keep is set.
func Run(ctx context.Context, options Options) error {
	if err := options.Validate(); err != nil {
		return err
	}
	if options.Prometheus {
		if _, err := promserver.Find("prometheus"); err != nil {
			return fmt.Errorf("--prometheus: %w", err)
		}
	}
	r := &run{options: options, screen: screen.New(options.Stdout), zero: time.Now()}
	if options.JSON {
		r.screen = screen.New(options.Stderr)
	}
	var err error
	if r.log, err = logging.New(r.screen, options.Log, "text"); err != nil {
		return err
	}
	err = r.run(ctx)
	if options.JSON {
		if jsonErr := r.report.write(options.Stdout, err); jsonErr != nil {
			return errors.Join(err, jsonErr)
		}
	}
	return err
}

func (r *run) run(ctx context.Context) error {
	config, cluster, err := r.cluster(ctx)
	if err != nil {
		return err
	}
	if cluster != nil {
		defer func() {
			r.screen.Println("stopping the cluster")
			if err := cluster.Stop(); err != nil {
				r.log.Error("stopping the cluster", "error", err)
			}
		}()
	}
	group := lifecycle.New(ctx)
	if cluster != nil {
		group.Go("the local cluster", func(ctx context.Context) error {
			select {
			case <-cluster.Done():
				return cluster.Err()
			case <-ctx.Done():
				return nil
			}
		})
	}
	group.Go("up", func(ctx context.Context) error {
		defer group.Stop()
		if r.options.Heroes > 0 {
			return r.onHeroes(ctx, config, cluster)
		}
		return r.on(ctx, config)
	})
	err = group.Wait()
	switch {
	case errors.Is(err, errSettled):
		return nil
	case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		if r.options.UntilSettled {
			return errors.New("interrupted before all samples were settled")
		}
		return nil
	}
	return err
}

// cluster starts a local cluster, or connects to the user's own. In that case the returned cluster
// is nil.
func (r *run) cluster(ctx context.Context) (*rest.Config, *localcluster.Cluster, error) {
	if r.options.Kubeconfig != "" {
		config, err := connect.Config(r.options.Kubeconfig)
		if err != nil {
			return nil, nil, err
		}
		version, err := connect.Check(ctx, config)
		if err != nil {
			return nil, nil, err
		}
		r.connected(r.options.Kubeconfig, version, time.Since(r.zero))
		return config, nil, nil
	}
	r.report.Cluster.Local = true
	options := localcluster.Options{Progress: steps.On(r.screen), Logger: r.log}
	if r.options.Heroes > 0 {
		options.Nodes = localcluster.RealNode
	}
	cluster, isReal, err := StartCluster(ctx, options, func(line string) {
		r.screen.Live()
		r.screen.Println(line)
	})
	r.isReal = isReal
	r.screen.Live()
	if err != nil {
		return nil, nil, err
	}
	r.zero = time.Now().Add(-cluster.APIReadyAfter())
	version, err := connect.Check(ctx, cluster.AdminConfig())
	if err != nil {
		return nil, nil, errors.Join(err, cluster.Stop())
	}
	r.connected(cluster.Kubeconfig(), version, cluster.APIReadyAfter())
	watched := "sheroes"
	if r.options.Heroes > 0 {
		watched = "heroes"
	}
	if kubectl := cluster.Kubectl(); kubectl != "" {
		r.screen.Println("  kubectl:    KUBECONFIG=" + cluster.Kubeconfig() + " " + kubectl + " get " + watched + " --watch")
	}
	return cluster.AdminConfig(), cluster, nil
}

// StartCluster starts a local cluster, and reports whether its node runs containers. If this machine cannot run a node
// that is asked to, StartCluster says so and simulates the node.
func StartCluster(ctx context.Context, options localcluster.Options, say func(line string)) (cluster *localcluster.Cluster, isReal bool, err error) {
	cluster, err = localcluster.Start(ctx, options)
	if errors.Is(err, localcluster.ErrNoRealNode) {
		say(err.Error())
		say("the node is simulated instead, and runs no containers")
		options.Nodes = localcluster.SimulatedNode
		cluster, err = localcluster.Start(ctx, options)
	}
	return cluster, options.Nodes == localcluster.RealNode, err
}

func (r *run) connected(kubeconfig, version string, after time.Duration) {
	r.report.Cluster.Kubeconfig, r.report.Cluster.Version = kubeconfig, version
	r.report.Seconds.APIReady = seconds(after)
	r.screen.Println(fmt.Sprintf("%s Kubernetes %s answers after %.1f s", r.tick(), version, after.Seconds()))
	r.screen.Println("  kubeconfig: " + kubeconfig)
}

func (r *run) tick() string { return r.screen.Paint(screen.Green, "✓") }

// on does everything that needs a cluster. In the user's own cluster, the operator watches only the
// namespace of the samples.
func (r *run) on(ctx context.Context, config *rest.Config) error {
	made := &samples{config: config, namespace: r.options.Namespace, image: r.options.Image, count: r.options.Sheroes}
	clean := r.options.Kubeconfig != "" && !r.options.Keep
	watched := ""
	var namespaces []string // The operator watches all.
	if r.options.Kubeconfig != "" {
		watched, namespaces = r.options.Namespace, []string{r.options.Namespace}
	}
	var err error
	if made.madeNamespace, err = install.MakeNamespace(ctx, config, r.options.Namespace); err != nil {
		return connect.Explain(err)
	}
	if clean {
		defer r.cleanup(ctx, "the samples", made.remove)
	}
	installed, err := install.Operator(ctx, config, install.Options{WatchNamespace: watched})
	if installed != nil && clean {
		defer r.cleanup(ctx, "the operator's permissions", installed.Remove)
	}
	if err != nil {
		return connect.Explain(err)
	}
	r.screen.Println(r.tick() + " resource definition and permissions are installed from the chart")
	if r.options.Replicas > 1 {
		return r.onReplicas(ctx, config, made, namespaces)
	}
	account, err := installed.Config(ctx, config)
	if err != nil {
		return connect.Explain(err)
	}
	options := controller.Options{Namespaces: namespaces, Logger: r.log}
	if r.options.Record != "" {
		options.Recording = &recording.Options{Dir: r.options.Record, Version: "bellerophon up", Logger: r.log}
	}
	listening := r.serveMetrics(&options)
	if r.manager, err = operator.New(account, options, operator.Kinds{}); err != nil {
		return err
	}
	group := lifecycle.New(ctx)
	group.Go("the operator", r.manager.Run)
	r.scrapeOnce(group, listening)
	group.Go("the samples", func(ctx context.Context) error {
		if err := made.apply(ctx); err != nil {
			return connect.Explain(err)
		}
		r.screen.Println(fmt.Sprintf("%s %d sample objects are applied in namespace %s", r.tick(), r.options.Sheroes, r.options.Namespace))
		return r.follow(ctx, config, made)
	})
	return group.Wait()
}

// serveMetrics sets the options of a manager so that it serves metrics, and prints their URL. The returned channel
// receives the address.
func (r *run) serveMetrics(options *controller.Options) <-chan net.Addr {
	listening := make(chan net.Addr, 1)
	options.MetricsAddress = r.options.MetricsAddress
	options.OnListen = func(_ string, address net.Addr) {
		r.report.Metrics = "http://" + address.String() + "/metrics"
		r.screen.Println(r.tick() + " the operator runs as its own ServiceAccount; metrics: " + r.report.Metrics)
		r.screen.Println("  page:       http://" + address.String() + page.Root)
		listening <- address
	}
	return listening
}

// cleanup calls remove with a context of its own, because ctx may have ended.
func (r *run) cleanup(ctx context.Context, what string, remove func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if err := remove(ctx); err != nil {
		r.screen.Println(fmt.Sprintf("%s %s could not be removed: %v", r.screen.Paint(screen.Red, "✗"), what, err))
	}
}
