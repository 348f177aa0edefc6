package page

import (
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }
