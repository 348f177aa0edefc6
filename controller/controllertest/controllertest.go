// Package controllertest runs tests of controllers against a real Kubernetes control plane. One control
// plane serves all tests of a package, and each test works in namespaces of its own:
//
//	func TestMain(m *testing.M) { controllertest.Main(m) }
//
//	func TestMyController(t *testing.T) {
//		cluster := controllertest.Start(t)
//		cluster.Install(t, "../config/crd")
//		namespace := cluster.Namespace(t)
//		manager, err := controller.NewManager(cluster.Config(), scheme, controller.Options{Namespaces: []string{namespace}})
//		...
//	}
//
// # Where the programs come from
//
// Start builds etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok with the go command, at
// its first use on a machine. That takes some minutes, so allow for it with go test's -timeout. Later starts
// take seconds. kwok simulates a node, on which Pods become ready at once.
//
// With KUBEBUILDER_ASSETS, as set by setup-envtest, Start takes the programs from that directory and builds
// none. If the directory has only etcd and kube-apiserver, then nothing else runs, as in envtest: see
// [Cluster.IsAPIOnly]. In the other direction, [Assets] returns a directory that fits KUBEBUILDER_ASSETS of
// envtest.
//
// # Tests without a control plane
//
// Package sources/sourcestest is a fake API server for tests in virtual time.
package controllertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"k8s.io/client-go/rest"
)

// Cluster is a running control plane. Its methods may be called from any goroutine.
type Cluster struct {
	running *localcluster.Cluster
	apiOnly bool
}

// shared holds the cluster of this process, or the reason why there is none.
var shared struct {
	sync.Mutex
	asked   bool
	cluster *Cluster
	err     error
}

// Main runs the tests of a package, and stops the cluster if one was started. TestMain calls it. It does not
// return. Without Main, the cluster ends with the process.
func Main(m *testing.M) { os.Exit(run(m.Run)) }

func run(tests func() int) int {
	code := tests()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		return code
	}
	if err := shared.cluster.running.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "controllertest: stop the cluster:", err)
		return max(code, 1)
	}
	return code
}

// Start returns the cluster of this process. The first call starts it. If that fails, every test that calls
// Start fails; none is skipped.
func Start(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.asked {
		shared.asked = true
		shared.cluster, shared.err = start(context.Background())
	}
	if shared.err != nil {
		t.Fatalf("controllertest: start the cluster: %v", shared.err)
	}
	if err := shared.cluster.running.Err(); err != nil {
		t.Fatalf("controllertest: the cluster has failed: %v", err)
	}
	return shared.cluster
}

func start(ctx context.Context) (*Cluster, error) {
	options := localcluster.Options{Progress: printPhases(), APIOnly: assetsAreAPIOnly()}
	running, err := localcluster.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	return &Cluster{running, options.APIOnly}, nil
}

// assetsAreAPIOnly reports whether KUBEBUILDER_ASSETS has an API server, and no controller manager.
func assetsAreAPIOnly() bool {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(assets, name))
		return err == nil
	}
	return assets != "" && has("kube-apiserver") && !has("kube-controller-manager")
}

// printPhases prints each phase of the start once.
func printPhases() func(localcluster.Progress) {
	var last string
	return func(p localcluster.Progress) {
		if p.Phase != last {
			last = p.Phase
			fmt.Fprintln(os.Stderr, "controllertest:", p.Phase)
		}
	}
}

// Assets returns a directory with the programs of the control plane, under the names that KUBEBUILDER_ASSETS
// of envtest needs. It builds them if they are missing.
func Assets(t testing.TB) string {
	t.Helper()
	directory, err := localcluster.Assets(t.Context(), localcluster.Options{Progress: printPhases()})
	if err != nil {
		t.Fatalf("controllertest: %v", err)
	}
	return directory
}

// Config returns a new client configuration of an administrator.
func (c *Cluster) Config() *rest.Config { return c.running.AdminConfig() }

// Kubeconfig returns the path of the administrator's kubeconfig file, which exists until the end of the tests.
func (c *Cluster) Kubeconfig() string { return c.running.Kubeconfig() }

// IsAPIOnly reports whether only etcd and the API server run. Then Pods do not become ready, and nothing is
// collected as garbage.
func (c *Cluster) IsAPIOnly() bool { return c.apiOnly }
