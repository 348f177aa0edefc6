package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheCommandsOfTheDocumentsAreUnderstood(t *testing.T) {
	pages := []string{"../README.md"}
	for _, pattern := range []string{"../docs/*.md", "*.md", "results/*.md", "peers/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s has no pages (%v)", pattern, err)
		}
		pages = append(pages, found...)
	}
	lines := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`go run \./bench ([a-z][^#`+"`"+`\n]*)`).FindAllSubmatch(text, -1) {
			lines++
			line := strings.TrimSpace(string(match[1]))
			if line == "run" || line == "inspect" { // The name of the command in a sentence.
				continue
			}
			command, args, err := newRoot().Find(strings.Fields(line))
			if err != nil {
				t.Errorf("%s: bench %s: %v", page, line, err)
				continue
			}
			if err := command.ParseFlags(args); err != nil {
				t.Errorf("%s: bench %s: %v", page, line, err)
			}
			if err := command.ValidateArgs(command.Flags().Args()); err != nil {
				t.Errorf("%s: bench %s: %v", page, line, err)
			}
		}
	}
	if lines == 0 {
		t.Error("no page has a command")
	}
}
