package command

import (
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
)

func TestByDefaultOtherMachinesReachNoMetricsWithoutProtection(t *testing.T) {
	for _, test := range []struct {
		protection controller.Protection
		inCluster  bool
		want       string
	}{
		{controller.ProtectedInCluster, true, ":8080"},
		{controller.ProtectedInCluster, false, "127.0.0.1:8080"},
		{controller.Protected, false, ":8080"},
		{controller.Unprotected, false, ":8080"},
	} {
		if got := metricsAddress(test.protection, test.inCluster); got != test.want {
			t.Errorf("the address with %q in a cluster (%t) is %s, want %s", test.protection, test.inCluster, got, test.want)
		}
	}
}

func TestOutsideOfAClusterOtherMachinesDoNotReachHealth(t *testing.T) {
	if in, out := healthAddress(true), healthAddress(false); in != ":8081" || out != "127.0.0.1:8081" {
		t.Errorf("the address is %s in a cluster and %s elsewhere", in, out)
	}
}
