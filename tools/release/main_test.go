package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/tools/release/checkout"
)

func TestACheckoutThatIsChangedWhileItIsBuiltIsNoticed(t *testing.T) {
	source := checkout.Checkout{Root: t.TempDir()}
	git := func(arguments ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=tests", "-c", "user.email=tests@example.org", "-c", "commit.gpgsign=false"}, arguments...)...)
		command.Dir = source.Root
		if said, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", strings.Join(arguments, " "), err, said)
		}
	}
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(source.Root, "file"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		git("add", "file")
	}
	git("init", "--quiet")
	write("one")
	git("commit", "--quiet", "--message=one")
	commit, err := source.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := isStill(t.Context(), source, commit); err != nil {
		t.Error(err)
	}
	write("two")
	if err := isStill(t.Context(), source, commit); err == nil || !strings.Contains(err.Error(), "was changed while it was built") {
		t.Errorf("a changed file is answered with %v", err)
	}
	git("commit", "--quiet", "--message=two")
	if err := isStill(t.Context(), source, commit); err == nil || !strings.Contains(err.Error(), "was changed while it was built") {
		t.Errorf("another commit is answered with %v", err)
	}
}
