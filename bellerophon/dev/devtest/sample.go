package devtest

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// The images that the devfiles of the samples name. clustertest.LoadGo and clustertest.LoadSystem make them.
const (
	GoImage     = "example.invalid/dev-go:1"
	ScriptImage = "example.invalid/dev-script:1"
)

// CopySample copies a sample project, "go" or "script", into a temporary directory, and returns the directory.
func CopySample(t testing.TB, name string) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(here), "..", "samples", name)
	directory := t.TempDir()
	if err := os.CopyFS(directory, os.DirFS(source)); err != nil {
		t.Fatalf("copy the sample %s: %v", name, err)
	}
	return directory
}
