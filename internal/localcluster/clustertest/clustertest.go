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

// shared holds the cluster of this process, or the reason why there is none.
var shared struct {
	sync.Mutex
	asked   bool
	cluster *localcluster.Cluster
	err     error
}

// Main runs a package's tests and stops the cluster if one was started. It then fails if a
// goroutine is left. TestMain calls it. It does not return.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(runner{m}, options...)
}

// runner runs the tests for goleak, which looks for goroutines afterwards.
type runner struct{ tests *testing.M }

func (r runner) Run() int {
	code := r.tests.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		return code
	}
	if err := shared.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the shared cluster of the tests:", err)
		return max(code, 1)
	}
	return code
}

// Shared returns the cluster of this process. The first call starts the cluster, which takes
// seconds, or minutes if the control plane has to be built. Allow for a build with go test's
// -timeout, or call [localcluster.Build] before.
func Shared(t testing.TB) *localcluster.Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.asked {
		shared.asked = true
		shared.cluster, shared.err = localcluster.Start(context.Background(), localcluster.Options{Progress: printPhases()})
	}
	if shared.err != nil {
		t.Fatalf("start the shared cluster: %v", shared.err)
	}
	if err := shared.cluster.Err(); err != nil {
		t.Fatalf("the shared cluster has failed: %v", err)
	}
	return shared.cluster
}

// printPhases prints each phase of the start once.
func printPhases() func(localcluster.Progress) {
	var last string
	return func(p localcluster.Progress) {
		if p.Phase != last {
			last = p.Phase
			fmt.Fprintln(os.Stderr, "shared cluster of the tests:", p.Phase)
		}
	}
}
