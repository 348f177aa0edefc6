package ranks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// behavioursFile is the table of what client-go tests and where it is shown here.
const behavioursFile = "docs/client-go-behaviours.md"

// row is one behaviour of the table.
type row struct {
	line         int
	theirs, here []string // names of tests: theirs bare, ours as package.Name, with the last part of the package's path
	reason       bool     // the row says why the behaviour does not apply
	bug          bool     // the row says what is wrong here
}

var (
	theirTest = regexp.MustCompile("`(Test\\w+)`")
	ourTest   = regexp.MustCompile("`(\\w+)\\.(Test\\w+|Fuzz\\w+|Example\\w*)`")
)

// rowsOf reads the rows of the tables in a document, and reports those that are no rows.
func rowsOf(document string) (rows []row, wrong []int) {
	for i, line := range strings.Split(document, "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| behaviour |") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 3 {
			wrong = append(wrong, i+1)
			continue
		}
		read := row{line: i + 1, reason: strings.HasPrefix(strings.TrimSpace(cells[2]), "does not apply: "), bug: strings.Contains(cells[2], "bug: ")}
		for _, match := range theirTest.FindAllStringSubmatch(cells[1], -1) {
			read.theirs = append(read.theirs, match[1])
		}
		for _, match := range ourTest.FindAllStringSubmatch(cells[2], -1) {
			read.here = append(read.here, match[1]+"."+match[2])
		}
		if len(read.theirs) == 0 || (len(read.here) == 0 && !read.reason && !read.bug) {
			wrong = append(wrong, i+1)
		}
		rows = append(rows, read)
	}
	return rows, wrong
}

// testsIn returns the names of the test functions of a Go file.
func testsIn(t *testing.T, name, content string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, declared := range file.Decls {
		function, is := declared.(*ast.FuncDecl)
		if !is || function.Recv != nil || function.Name.Name == "TestMain" {
			continue
		}
		for _, prefix := range []string{"Test", "Fuzz", "Example"} {
			if strings.HasPrefix(function.Name.Name, prefix) {
				names = append(names, function.Name.Name)
			}
		}
	}
	return names
}

func TestTheTableOfBehavioursNamesTestsThatExist(t *testing.T) {
	document, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(behavioursFile)))
	if err != nil {
		t.Fatal(err)
	}
	rows, wrong := rowsOf(string(document))
	for _, line := range wrong {
		t.Errorf("%s:%d: a row has a behaviour, tests of client-go, and tests here, a bug or why it does not apply", behavioursFile, line)
	}
	if len(rows) < 100 {
		t.Errorf("%s has %d rows, want at least 100", behavioursFile, len(rows))
	}
	existing := map[string]bool{}
	for _, source := range moduleFiles(t) {
		if isTest(source.path) {
			for _, name := range testsIn(t, source.path, source.content) {
				existing[path.Base(path.Dir(source.path))+"."+name] = true
			}
		}
	}
	for _, row := range rows {
		for _, name := range row.here {
			if !existing[name] {
				t.Errorf("%s:%d: there is no test %s", behavioursFile, row.line, name)
			}
		}
	}
}

func TestTheTableOfBehavioursHasEachTestOfClientGo(t *testing.T) {
	document, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(behavioursFile)))
	if err != nil {
		t.Fatal(err)
	}
	// The go command caches the result of this test by the files that it reads: the version
	// of client-go is in this one.
	if _, err := os.ReadFile(filepath.Join("..", "..", "go.mod")); err != nil {
		t.Fatal(err)
	}
	listed, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/client-go").Output()
	if err != nil {
		t.Fatalf("finding client-go: %v", err)
	}
	root := strings.TrimSpace(string(listed))
	rows, _ := rowsOf(string(document))
	named := map[string]bool{}
	for _, row := range rows {
		for _, name := range row.theirs {
			named[name] = true
		}
	}
	theirs := map[string]bool{}
	for _, folder := range []string{"tools/cache", "tools/cache/synctrack", "tools/cache/testing", "util/workqueue"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no tests (%v)", folder, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range testsIn(t, file, string(content)) {
				theirs[name] = true
				if !strings.HasPrefix(name, "Example") && !named[name] {
					t.Errorf("%s: %s of client-go's %s/%s is missing", behavioursFile, name, folder, filepath.Base(file))
				}
			}
		}
	}
	for _, row := range rows {
		for _, name := range row.theirs {
			if !theirs[name] {
				t.Errorf("%s:%d: client-go has no test %s", behavioursFile, row.line, name)
			}
		}
	}
}

func TestARowThatShowsNothingIsFound(t *testing.T) {
	const head = "| behaviour | client-go | here |\n|---|---|---|\n"
	for document, want := range map[string][]int{
		head + "| It works. | `TestIt` | `cache.TestIt`, `sourcestest.TestToo` |\n": nil,
		head + "| It works. | `TestIt` | does not apply: no |\n":                    nil,
		head + "| It works. | `TestIt` | bug: it does not |\n":                      nil,
		head + "| It works. | `TestIt` | it does |\n":                               {3},
		head + "| It works. | TestIt | `cache.TestIt` |\n":                          {3},
		head + "| It works. | `TestIt` | `cache.TestIt` | more |\n":                 {3},
		head + "| It works. | `TestIt` |\n":                                         {3},
		"no table":                                                                  nil,
	} {
		if _, wrong := rowsOf(document); !slices.Equal(wrong, want) {
			t.Errorf("of %q the lines %v are wrong, want %v", document, wrong, want)
		}
	}
	rows, _ := rowsOf(head + "| It. | `TestA`, `TestB` | `cache.TestIt`, `sourcestest.TestToo`; bug: odd |\n")
	if len(rows) != 1 || !slices.Equal(rows[0].theirs, []string{"TestA", "TestB"}) || !slices.Equal(rows[0].here, []string{"cache.TestIt", "sourcestest.TestToo"}) || !rows[0].bug || rows[0].reason {
		t.Errorf("read %+v", rows)
	}
}

const featuresFile = "docs/features.md"

// TestTheTableOfFeaturesNamesTestsThatExist checks the tests that the page names, and that each feature which
// Bellerophon has names one.
func TestTheTableOfFeaturesNamesTestsThatExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(featuresFile)))
	if err != nil {
		t.Fatal(err)
	}
	existing := map[string]bool{}
	for _, source := range moduleFiles(t) {
		if isTest(source.path) {
			for _, name := range functionsIn(t, source) {
				existing[path.Base(path.Dir(source.path))+"."+name] = true
			}
		}
	}
	named := regexp.MustCompile("`(\\w+\\.(?:Test|Example)\\w*)`")
	for number, line := range strings.Split(string(page), "\n") {
		tests := named.FindAllStringSubmatch(line, -1)
		for _, test := range tests {
			if !existing[test[1]] {
				t.Errorf("%s:%d: there is no %s", featuresFile, number+1, test[1])
			}
		}
		cells := strings.Split(line, "|")
		if len(cells) == 13 && strings.TrimSpace(cells[10]) == "Y" && len(tests) == 0 {
			t.Errorf("%s:%d: the feature names no test", featuresFile, number+1)
		}
	}
}
