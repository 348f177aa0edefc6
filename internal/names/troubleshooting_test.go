package names

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	symptom    = regexp.MustCompile("(?m)^### .*$")
	quoted     = regexp.MustCompile("`([^`\n]+)`")
	metricName = regexp.MustCompile(`^(bellerophon|controller_runtime|workqueue|rest_client|leader_election)_\w+$`)
)

// quotedNames returns what a page quotes: all in code font in the titles of symptoms, and the metrics anywhere.
func quotedNames(page string) (names []string) {
	for _, title := range symptom.FindAllString(page, -1) {
		for _, match := range quoted.FindAllStringSubmatch(title, -1) {
			names = append(names, match[1])
		}
	}
	for _, match := range quoted.FindAllStringSubmatch(page, -1) {
		if metricName.MatchString(match[1]) {
			names = append(names, match[1])
		}
	}
	return names
}

// unknownNames returns the names that are neither in a list of names nor a part of a message.
func unknownNames(names []string, listed map[string]bool, messages string) (unknown []string) {
	for _, name := range names {
		isMessage := strings.Contains(name, " ") && strings.Contains(messages, name)
		if !listed[name] && !isMessage {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

func TestWhatThePageOfSymptomsQuotesExists(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "guides", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, rows := range lists(t, "") {
		for _, row := range rows {
			name, _, _ := strings.Cut(row, "\t")
			listed[name] = true
		}
	}
	var messages strings.Builder
	for _, folder := range folders(t) {
		folder.each(func(node ast.Node) {
			if literal, is := node.(*ast.BasicLit); is {
				messages.WriteString(literal.Value + "\n")
			}
		})
	}
	names := quotedNames(string(page))
	if symptoms := len(symptom.FindAllString(string(page), -1)); symptoms < 15 || len(names) < symptoms {
		t.Errorf("the page has %d symptoms and %d names; want 15 symptoms, most with a name", symptoms, len(names))
	}
	for _, name := range unknownNames(names, listed, messages.String()) {
		t.Errorf("docs/guides/troubleshooting.md quotes %q, which no list of docs/names and no message of the code has", name)
	}
}

func TestAQuoteThatNothingHasIsFound(t *testing.T) {
	page := "### `Known` or `Gone`\n\n### `a message of` the code, `no message`\n\nThe metric `bellerophon_gone`, `workqueue_depth`, `free text`\n"
	unknown := unknownNames(quotedNames(page), map[string]bool{"Known": true, "workqueue_depth": true}, "`a message of the code Gone`")
	if got := strings.Join(unknown, ","); got != "Gone,no message,bellerophon_gone" {
		t.Errorf("found %s", got)
	}
}
