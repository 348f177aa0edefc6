// Package clustertest provides tests with a real Kubernetes control plane. One cluster serves all
// tests of a process, and each test works in its own namespaces:
//
//	func TestMain(m *testing.M) { clustertest.Main(m) }
//
//	func TestSomethingOnARealCluster(t *testing.T) {
//		cluster := clustertest.Shared(t)
//		namespace := clustertest.Namespace(t)
//		...
//	}
//
// The first test that calls Shared or Namespace starts the cluster. If its binaries do not exist
// and cannot be built, every test that needs the cluster fails. No test is skipped.
//
// The Pods of this cluster run no containers. A test that needs containers calls WithRealNode, which
// starts a second cluster. That test is skipped on a machine that cannot run a real node.
package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

// one is a cluster of this process.
type one struct {
	sync.Mutex
	nodes   localcluster.Nodes
	asked   bool
	cluster *localcluster.Cluster
	err     error // why there is none
}

var (
	shared   = &one{nodes: localcluster.SimulatedNode}
	withNode = &one{nodes: localcluster.RealNode}
)

// Main runs a package's tests and stops the cluster if one was started. It then fails if a
// goroutine is left. TestMain calls it. It does not return.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(runner{m}, options...)
}

// runner runs the tests for goleak, which looks for goroutines afterwards.
type runner struct{ tests *testing.M }

func (r runner) Run() int {
	code := r.tests.Run()
	for _, each := range []*one{shared, withNode} {
		code = max(code, each.stop())
	}
	return code
}

// stop stops the cluster if one was started, and returns an exit code.
func (o *one) stop() int {
	o.Lock()
	defer o.Unlock()
	if o.cluster == nil {
		return 0
	}
	if err := o.cluster.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "stop the cluster of the tests with a %s node: %v\n", o.nodes, err)
		return 1
	}
	return 0
}

// Shared returns the cluster of this process. The first call starts the cluster, which takes
// seconds, or minutes if the control plane has to be built. Allow for a build with go test's
// -timeout, or call [localcluster.Build] before.
func Shared(t testing.TB) *localcluster.Cluster {
	t.Helper()
	return shared.get(t)
}

// WithRealNode returns a cluster of this process whose Pods run containers, of images that the test
// loads with [localcluster.Cluster.LoadImage]. The first call starts the cluster, which takes about ten seconds. The
// test is skipped, with the reason, if this machine cannot run a real node.
func WithRealNode(t testing.TB) *localcluster.Cluster {
	t.Helper()
	return withNode.get(t)
}

func (o *one) get(t testing.TB) *localcluster.Cluster {
	t.Helper()
	o.Lock()
	defer o.Unlock()
	if !o.asked {
		o.asked = true
		o.cluster, o.err = localcluster.Start(context.Background(), localcluster.Options{Nodes: o.nodes, Progress: printPhases()})
	}
	if errors.Is(o.err, localcluster.ErrNoRealNode) { // It says what the machine lacks: root, Linux, a program, a namespace or a cgroup.
		t.Skip(o.err)
	}
	if o.err != nil {
		t.Fatalf("start the cluster with a %s node: %v", o.nodes, o.err)
	}
	if err := o.cluster.Err(); err != nil {
		t.Fatalf("the cluster with a %s node has failed: %v", o.nodes, err)
	}
	return o.cluster
}

// printPhases prints each phase of the start once.
func printPhases() func(localcluster.Progress) {
	var last string
	return func(p localcluster.Progress) {
		if p.Phase != last {
			last = p.Phase
			fmt.Fprintln(os.Stderr, "cluster of the tests:", p.Phase)
		}
	}
}
