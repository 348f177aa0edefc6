package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// commandLines returns the indented lines of a document that begin with a command, without their
// comments.
func commandLines(t *testing.T, document, command string) []string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, match := range regexp.MustCompile(`(?m)^    (`+command+` [^#\n]*)`).FindAllStringSubmatch(string(text), -1) {
		lines = append(lines, strings.TrimSpace(match[1]))
	}
	if len(lines) == 0 {
		t.Fatalf("%s has no line with %s", document, command)
	}
	return lines
}

func TestTheCommandsOfTheReadmeAreUnderstood(t *testing.T) {
	for _, line := range commandLines(t, "../README.md", "bin/bellerophon") {
		command, args, err := newRoot().Find(strings.Fields(line)[1:])
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if err := command.ParseFlags(args); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if err := command.ValidateArgs(command.Flags().Args()); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestTheMakeTargetsOfTheDocumentsExist(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range []string{"../README.md", "../CONTRIBUTING.md"} {
		for _, line := range commandLines(t, document, "make") {
			target := strings.Fields(line)[1]
			if !regexp.MustCompile(`(?m)^` + target + `:.*## `).Match(makefile) {
				t.Errorf("%s: %s: the Makefile has no such target", document, line)
			}
		}
	}
}
