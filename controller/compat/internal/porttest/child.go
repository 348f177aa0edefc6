package porttest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/compat"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// These are the variables of the environment of a child process, which runs the operator.
const (
	runtimeVariable   = "PORT_RUNTIME"
	namespaceVariable = "PORT_NAMESPACE"
	recordingVariable = "PORT_RECORDING" // a folder; without it, nothing is recorded
)

// The names of the runtimes.
const (
	Bellerophon       = "Bellerophon"
	ControllerRuntime = "controller-runtime"
)

// Main runs the tests of an operator. In a process that Compare or Replay has started, it runs the operator
// instead, with a manager of the requested runtime. setUp adds the controllers.
func Main(m *testing.M, options ctrl.Options, setUp func(mgr ctrl.Manager) error) {
	if by := os.Getenv(runtimeVariable); by != "" {
		if err := operate(by, options, setUp); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	ctrl.SetLogger(logr.Discard())
	clustertest.Main(m)
}

// operate runs the operator until the process is asked to end, and prints its requests.
func operate(by string, options ctrl.Options, setUp func(mgr ctrl.Manager) error) error {
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1
	config.UserAgent = "port"
	sent := &requests{counts: map[string]int{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { sent.next = next; return sent })
	mgr, err := managerOf(by, config, inNamespace(options, os.Getenv(namespaceVariable)))
	if err == nil {
		err = setUp(mgr)
	}
	if err == nil {
		err = mgr.Start(ctx)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(sent.counts)
}

// inNamespace returns options for a manager of one namespace, without metrics.
func inNamespace(options ctrl.Options, namespace string) ctrl.Options {
	options.Cache.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	return options
}

// managerOf returns a manager of a runtime.
func managerOf(by string, config *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
	switch by {
	case Bellerophon:
		var ours controller.Options
		if folder := os.Getenv(recordingVariable); folder != "" {
			ours.Recording = &recording.Options{Dir: folder}
		}
		return compat.NewManager(config, options, ours)
	case ControllerRuntime:
		return ctrl.NewManager(config, options)
	}
	return nil, fmt.Errorf("%s is %q; allowed are %s and %s", runtimeVariable, by, Bellerophon, ControllerRuntime)
}

// requests is a transport that counts requests by their kind.
type requests struct {
	next   http.RoundTripper
	mu     sync.Mutex
	counts map[string]int
}

func (r *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	kind := "read"
	if request.Method != http.MethodGet {
		kind = "write"
	}
	if strings.HasSuffix(request.URL.Path, "/events") || strings.Contains(request.URL.Path, "/events/") {
		kind = "event"
	}
	answer, err := r.next.RoundTrip(request)
	if err == nil && answer.StatusCode == http.StatusConflict {
		kind += " in vain"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[kind]++
	return answer, err
}
