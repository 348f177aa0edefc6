package localcluster_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
)

func TestMain(m *testing.M) {
	if os.Getenv(localcluster.ParentVariable) != "" {
		fmt.Fprintln(os.Stderr, localcluster.BeAParentThatGetsKilled())
		os.Exit(1)
	}
	clustertest.Main(m)
}
