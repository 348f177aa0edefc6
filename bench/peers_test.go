package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestThePageOfThePeersCountsTheLinesOfTheEqualForms(t *testing.T) {
	page, err := os.ReadFile("peers/README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+\\.(?:go|rs))` \\|.*\\| (\\d+) \\|$").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 6 {
		t.Errorf("the page counts the lines of %d files, want 6", len(rows))
	}
	for _, row := range rows {
		source, err := os.ReadFile(filepath.Join("peers", row[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		count := 0
		for line := range strings.Lines(string(source)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				count++
			}
		}
		if strconv.Itoa(count) != row[2] {
			t.Errorf("%s has %d lines of code, and the page says %s", row[1], count, row[2])
		}
	}
}
