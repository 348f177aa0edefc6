// Package promtool lets tests run Prometheus' own checker of rules and queries.
package promtool

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Run runs promtool in a folder, and fails the test if promtool does. Without promtool the test is skipped, or fails in CI.
func Run(t testing.TB, folder string, arguments ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("promtool is missing: %v", err)
		}
		t.Skip("promtool, of the Debian package prometheus, is missing")
	}
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Dir = folder
	if said, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, said)
	}
}
