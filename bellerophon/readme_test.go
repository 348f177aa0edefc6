package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// commandLines returns the indented lines of documents that begin with a command, without their
// comments.
func commandLines(t *testing.T, command string, documents ...string) []string {
	t.Helper()
	var lines []string
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^    (`+command+` [^#\n]*)`).FindAllStringSubmatch(string(text), -1) {
			lines = append(lines, strings.TrimSpace(match[1]))
		}
	}
	if len(lines) == 0 {
		t.Fatalf("no document has a line with %s", command)
	}
	return lines
}

// documents returns the pages with commands.
func documents(t *testing.T) []string {
	t.Helper()
	pages := []string{"../README.md", "../ARCHITECTURE.md", "../CONTRIBUTING.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/guides/*.md", "../docs/runbooks/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s has no pages (%v)", pattern, err)
		}
		pages = append(pages, found...)
	}
	return pages
}

func TestTheCommandsOfTheDocumentsAreUnderstood(t *testing.T) {
	for _, line := range commandLines(t, `(?:sudo )?(?:bin/|/tmp/)?bellerophon`, documents(t)...) {
		command, args, err := newRoot().Find(strings.Fields(strings.TrimPrefix(line, "sudo "))[1:])
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
	for _, line := range commandLines(t, "make", documents(t)...) {
		target := strings.Fields(line)[1]
		if !regexp.MustCompile(`(?m)^` + target + `:.*## `).Match(makefile) {
			t.Errorf("%s: the Makefile has no such target", line)
		}
	}
}

func TestTheCommandsWithinTheTextOfRunbooksExist(t *testing.T) {
	pages, err := filepath.Glob("../docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile("`bellerophon ([^`\n]+)`").FindAllStringSubmatch(string(text), -1) {
			found++
			command, args, err := newRoot().Find(strings.Fields(match[1]))
			if err == nil {
				err = command.ParseFlags(args)
			}
			if err == nil {
				err = command.ValidateArgs(command.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: bellerophon %s: %v", page, match[1], err)
			}
		}
	}
	if found == 0 {
		t.Error("no runbook names a command")
	}
}
