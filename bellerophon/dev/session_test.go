package dev_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write the session into docs/dev.md")

// sessionPage has the session in its last code block.
const sessionPage = "../../docs/dev.md"

// varying are the parts of a line that differ between runs.
var varying = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`synced [0-9a-f]{12}`), "synced 0123456789ab"},
	{regexp.MustCompile(`greeting-go-[0-9a-z]+-[0-9a-z]+`), "greeting-go-5d4f8c7b9-x2x4z"},
	{regexp.MustCompile(`127\.0\.0\.1:[0-9]+`), "127.0.0.1:8080"},
}

// passing are lines of states that may be over before they are seen.
var passing = regexp.MustCompile(`starting|run failed|runs$|no pod yet|PodRunning|FilesSynced: the files|interrupted|the pod is|BuildCommandExecuted|has ended|reading the`)

// steady returns the lines of a session that every run has, as they are in the docs.
func steady(session string) (lines []string) {
	for line := range strings.SplitSeq(strings.TrimSpace(session), "\n") {
		for _, each := range varying {
			line = each.pattern.ReplaceAllString(line, each.by)
		}
		if !passing.MatchString(line) {
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	return lines
}

// withoutRepeats returns the lines without later ones that say that the application runs. Such a line is shown again only if
// another state was seen in between.
func withoutRepeats(lines []string) []string {
	var kept []string
	for _, line := range lines {
		if line != runningLine || !slices.Contains(kept, line) {
			kept = append(kept, line)
		}
	}
	return kept
}

const runningLine = "RunCommandRunning: running"

func TestTheSessionInTheDocs(t *testing.T) {
	s := newSession(t, "go")
	s.name = "greeting-go"
	var shown bytes.Buffer
	out := screen.To(&shown)
	s.show = client.NewScreen(out).Show
	s.start(dev.Options{Say: out.Println})
	status := s.until(isRunning)
	s.page(status.Ports[0].Local, "Hello from Go")
	s.save("Hello again")
	s.page(status.Ports[0].Local, "Hello again")
	main := filepath.Join(s.project, "main.go")
	content, err := os.ReadFile(main)
	must(t, err)
	must(t, os.WriteFile(main, append(content, "func broken() { nothing }\n"...), 0o644))
	s.until(func(status contract.Status) bool {
		return status.Build != nil && status.Build.Outcome == contract.Failed
	})
	must(t, os.WriteFile(main, content, 0o644))
	s.until(isRunning)
	must(t, s.client.CoreV1().Pods(s.namespace).Delete(s.ctx, status.Pod, metav1.DeleteOptions{}))
	s.until(func(after contract.Status) bool { return isRunning(after) && after.Pod != status.Pod })
	must(t, s.stop())

	page, err := os.ReadFile(sessionPage)
	must(t, err)
	begin := bytes.LastIndex(page, []byte("```text\n")) + len("```text\n")
	end := begin + bytes.LastIndex(page[begin:], []byte("```"))
	got := steady(shown.String())
	if *update {
		made := slices.Concat(page[:begin], []byte(strings.Join(got, "\n")+"\n"), page[end:])
		must(t, os.WriteFile(sessionPage, made, 0o644))
		return
	}
	if want := steady(string(page[begin:end])); !slices.Equal(withoutRepeats(got), withoutRepeats(want)) {
		t.Errorf("the session is\n%s\nand in the docs\n%s\nrun with -args -update if it should be", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
