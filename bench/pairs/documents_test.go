package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestTheCommandsOfThePageAreUnderstood(t *testing.T) {
	page, err := os.ReadFile("../../docs/measuring.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`go run \./bench/pairs (--[^#>\n]*)`).FindAllStringSubmatch(string(page), -1)
	if len(lines) == 0 {
		t.Fatal("the page has no command")
	}
	for _, line := range lines {
		command := newPairs()
		if err := command.ParseFlags(strings.Fields(strings.ReplaceAll(line[1], "'", ""))); err != nil {
			t.Errorf("%s: %v", line[0], err)
		}
		if _, err := selectPrograms(programs, command.Flag("bench").Value.String()); err != nil {
			t.Errorf("%s: %v", line[0], err)
		}
	}
}
