package election_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestMain runs a replica instead of the tests if the environment says so: see processes_test.go. It turns
// client-go's error handlers off, because they slow down by a clock that means nothing between bubbles.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	if settings := os.Getenv(replicaVariable); settings != "" {
		os.Exit(runReplica(settings))
	}
	goleak.VerifyTestMain(m)
}
