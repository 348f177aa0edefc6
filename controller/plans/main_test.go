package plans_test

import (
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestMain turns client-go's error handlers off. They slow down by the time since the last error,
// which means nothing between synctest bubbles, as each has a clock of its own.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	clustertest.Main(m)
}
