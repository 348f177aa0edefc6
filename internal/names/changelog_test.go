package names

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEachNameThatChangedSinceTheLastReleaseIsInTheChangelog(t *testing.T) {
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	now, released := lists(t, "."), lists(t, "released")
	if len(now) < 10 {
		t.Fatalf("docs/names has only %d lists", len(now))
	}
	files := map[string]bool{}
	for _, lists := range []map[string][]string{now, released} {
		for file := range lists {
			files[file] = true
		}
	}
	for file := range files {
		for _, name := range unnamed(released[file], now[file], unreleased(string(changelog))) {
			t.Errorf("docs/names/%s: %q was added, removed or changed since the last release; name it, in backticks, in the section Unreleased of CHANGELOG.md", file, name)
		}
	}
}

// lists returns the rows of all lists in a folder of docs/names.
func lists(t *testing.T, folder string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(list(filepath.Join(folder, "*.txt")))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(file)] = strings.Split(strings.TrimSpace(string(content)), "\n")
	}
	return found
}

// unreleased returns the sections of a changelog whose titles begin with Unreleased.
func unreleased(changelog string) string {
	var found strings.Builder
	for _, section := range strings.Split("\n"+changelog, "\n## ")[1:] {
		if strings.HasPrefix(section, "Unreleased") {
			found.WriteString(section)
		}
	}
	return found.String()
}

// unnamed returns the names of rows that are in one of two lists only, and not in a section of the changelog.
func unnamed(before, after []string, section string) (names []string) {
	differs := func(in, of []string) {
		for _, row := range in {
			name, _, _ := strings.Cut(row, "\t")
			if !slices.Contains(of, row) && !strings.Contains(section, "`"+name+"`") && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	differs(before, after)
	differs(after, before)
	return names
}

func TestAChangedNameNeedsAnEntryOfItsOwn(t *testing.T) {
	before := []string{"a --b\tint", "a --c\tbool", "metric\tgauge [x]"}
	for name, test := range map[string]struct {
		after []string
		page  string
		want  []string
	}{
		"no change":                      {before, "", nil},
		"a name is gone":                 {before[1:], "## Unreleased\n", []string{"a --b"}},
		"a name is new":                  {append([]string{"a --d\tint"}, before...), "## Unreleased\n", []string{"a --d"}},
		"a type changed":                 {[]string{"a --b\tstring", "a --c\tbool", "metric\tgauge [x]"}, "## Unreleased\n", []string{"a --b"}},
		"labels changed":                 {[]string{"a --b\tint", "a --c\tbool", "metric\tgauge [x y]"}, "## Unreleased\n", []string{"metric"}},
		"it is named":                    {before[1:], "# C\n\n## Unreleased\n\n- `a --b` is gone.\n", nil},
		"it is named in a second part":   {before[1:], "## Unreleased: new\n\n## Unreleased: gone\n| `a --b` |\n", nil},
		"it is named without backticks":  {before[1:], "## Unreleased\n\na --b is gone.\n", []string{"a --b"}},
		"a longer name is named":         {before[1:], "## Unreleased\n\n`a --b=1` `xa --b`\n", []string{"a --b"}},
		"it is named in an old release":  {before[1:], "## Unreleased\n\n## v1.0.0\n\n`a --b`\n", []string{"a --b"}},
		"the whole list is gone":         {nil, "## Unreleased\n\n`a --b` `metric`\n", []string{"a --c"}},
		"the page has no such section":   {before[1:], "## v1.0.0\n\n`a --b`\n", []string{"a --b"}},
		"the section is the first line":  {before[1:], "## Unreleased\n`a --b`", nil},
		"it is named before the section": {before[1:], "`a --b`\n\n## Unreleased\n", []string{"a --b"}},
	} {
		if got := unnamed(before, test.after, unreleased(test.page)); !slices.Equal(got, test.want) {
			t.Errorf("%s: it misses %q, want %q", name, got, test.want)
		}
	}
}
