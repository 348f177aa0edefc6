// Package clustertest gives tests a real Kubernetes control plane. One cluster serves all
// tests of a process; each test works in namespaces of its own:
//
//	func TestMain(m *testing.M) { clustertest.Main(m) }
//
//	func TestSomethingOnARealCluster(t *testing.T) {
//		cluster := clustertest.Shared(t)
//		namespace := clustertest.Namespace(t)
//		...
//	}
//
// The first test that asks for the cluster starts it. If its binaries are not there and
// cannot be built, every test that asks fails: none is skipped.
package clustertest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

// shared is the cluster of this process, or why there is none.
var shared struct {
	sync.Mutex
	asked   bool
	cluster *localcluster.Cluster
	err     error
}

// Main runs a package's tests, stops the cluster if one was started, and then fails if
// a goroutine is left. TestMain calls it. It does not return.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(runner{m}, options...)
}

// runner is what goleak runs before it looks for goroutines.
type runner struct{ tests *testing.M }

func (r runner) Run() int {
	code := r.tests.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		return code
	}
	if err := shared.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the cluster of the tests:", err)
		return max(code, 1)
	}
	return code
}

// Shared is the cluster of this process. The first call starts it, which takes seconds,
// or minutes if the control plane has to be built: allow for it with go test's -timeout,
// or call [localcluster.Build] before.
func Shared(t testing.TB) *localcluster.Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.asked {
		shared.asked = true
		shared.cluster, shared.err = localcluster.Start(context.Background(), localcluster.Options{Progress: printPhases()})
	}
	if shared.err != nil {
		t.Fatalf("no cluster for this test: %v", shared.err)
	}
	if err := shared.cluster.Err(); err != nil {
		t.Fatalf("the cluster of the tests has died: %v", err)
	}
	return shared.cluster
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
