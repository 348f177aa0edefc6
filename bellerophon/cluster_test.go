package main

import (
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

func TestWhereNoRealNodeCanRunTheCommandSaysSoAndSimulatesTheNode(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // It has no containerd. The control plane is built already.
	var said []string
	cluster, err := startCluster(t.Context(), localcluster.Options{Nodes: localcluster.RealNode}, []string{"image.tar"}, func(line string) {
		said = append(said, line)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(said) != 2 || !strings.Contains(said[0], "no real node can run on this machine") || !strings.Contains(said[1], "simulated instead") {
		t.Errorf("the command says %q", said)
	}
	if cluster.PID("kwok") == 0 || cluster.PID("kubelet") != 0 {
		t.Error("the node is not simulated")
	}
	if err := cluster.Stop(); err != nil {
		t.Error(err)
	}
}
