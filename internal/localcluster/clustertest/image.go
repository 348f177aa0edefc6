package clustertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

// LoadWorkload builds the program in clustertest/workload, and loads it into the real node of a
// cluster as an image of the given name.
func LoadWorkload(t testing.TB, cluster *localcluster.Cluster, name string) {
	t.Helper()
	folder := t.TempDir()
	program, archive := filepath.Join(folder, "workload"), filepath.Join(folder, "workload.tar")
	build := exec.CommandContext(t.Context(), "go", "build", "-o="+program, "github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest/workload")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the workload: %v\n%s", err, said)
	}
	if err := localcluster.WriteProgramImage(archive, name, program); err != nil {
		t.Fatal(err)
	}
	if err := cluster.LoadImage(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
}
