package ranks

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documented lists the pages whose code, paths and names are checked.
func documented(t *testing.T) []source {
	t.Helper()
	return slices.DeleteFunc(pages(t), func(page source) bool {
		return strings.HasPrefix(page.path, "bench/") || strings.HasPrefix(page.path, "charts/")
	})
}

var codeBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// trimmed joins lines without their indentation, which a page may change.
func trimmed(code string) string {
	var lines strings.Builder
	for line := range strings.Lines(code) {
		lines.WriteString(strings.TrimSpace(line))
		lines.WriteByte('\n')
	}
	return lines.String()
}

// strayBlocks returns the first lines of the Go code blocks of a page that no Go file contains.
func strayBlocks(page string, files []string) (stray []string) {
	for _, match := range codeBlock.FindAllStringSubmatch(page, -1) {
		code := trimmed(match[1])
		if !slices.ContainsFunc(files, func(file string) bool { return strings.Contains(file, code) }) {
			stray = append(stray, strings.SplitN(code, "\n", 2)[0])
		}
	}
	return stray
}

// Code of a page that is also in a Go file is compiled, and cannot become outdated.
func TestTheCodeOfThePagesIsCompiled(t *testing.T) {
	var files []string
	for _, source := range moduleFiles(t) {
		files = append(files, "\n"+trimmed(source.content))
	}
	for _, page := range documented(t) {
		for _, line := range strayBlocks(page.content, files) {
			t.Errorf("%s: no Go file has the code block that starts with %q; copy it from an Example or a test", page.path, line)
		}
	}
}

func TestCodeThatNoFileHasIsFound(t *testing.T) {
	files := []string{"\nfunc a() {\nb()\n}\n"}
	for page, want := range map[string]int{
		"text\n":                             0,
		"```go\n\tb()\n```\n":                0,
		"```go\nfunc a() {\n    b()\n}\n```": 0,
		"```go\nfunc a() {\n\tc()\n}\n```\n": 1,
		"```yaml\na: b\n```\n":               0,
		"```go\nx()\n```\n\n```go\ny()\n```": 2,
	} {
		if stray := strayBlocks(page, files); len(stray) != want {
			t.Errorf("of %q the blocks %q are stray, want %d", page, stray, want)
		}
	}
}

var (
	pageLink    = regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`)
	inlineCode  = regexp.MustCompile("`([^`\n]+)`")
	plainPath   = regexp.MustCompile(`^(\.ci|bellerophon|bench|cache|charts|controller|docs|faults|internal|operators|sources|streams|tools)(/[\w.-]+)+/?$`)
	exportedUse = regexp.MustCompile(`\b(streams|sources|operators|cache|controller|pipeline)\.([A-Z]\w*)`)
)

var fenced = regexp.MustCompile("(?ms)^```.*?^```$")

// missingPaths returns the links and the paths in code font of a page that lead nowhere.
func missingPaths(page source, exists func(path string) bool) (missing []string) {
	text := fenced.ReplaceAllString(page.content, "")
	for _, match := range pageLink.FindAllStringSubmatch(text, -1) {
		if target := filepath.ToSlash(filepath.Join(filepath.Dir(page.path), match[1])); !exists(target) {
			missing = append(missing, match[1])
		}
	}
	for _, match := range inlineCode.FindAllStringSubmatch(text, -1) {
		if page.path != behavioursFile && plainPath.MatchString(match[1]) && !exists(match[1]) {
			missing = append(missing, match[1])
		}
	}
	return missing
}

func TestThePathsOfThePagesExist(t *testing.T) {
	for _, page := range documented(t) {
		for _, missing := range missingPaths(page, func(path string) bool {
			_, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(path)))
			return err == nil
		}) {
			t.Errorf("%s: there is no %s", page.path, missing)
		}
	}
}

func TestAPathThatLeadsNowhereIsFound(t *testing.T) {
	exists := func(path string) bool { return path == "cache/doc.go" || path == "docs/a.md" }
	for page, want := range map[string]int{
		"`cache/doc.go` `doc.go` `<name>/x.go` `cache/*.go` `go test ./cache`": 0,
		"`cache/gone.go`":               1,
		"[it](a.md) [it](a.md#section)": 0,
		"[it](b.md) [it](../cache/doc.go) [it](https://example.com)": 1,
	} {
		if missing := missingPaths(source{"docs/page.md", page}, exists); len(missing) != want {
			t.Errorf("of %q the paths %q are missing, want %d", page, missing, want)
		}
	}
}

// exportedNames returns what packages of the library export, as package.Name.
func exportedNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, source := range moduleFiles(t) {
		file, err := parser.ParseFile(token.NewFileSet(), source.path, source.content, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range file.Decls {
			for _, name := range declaredNames(declared) {
				names[file.Name.Name+"."+name] = true
			}
		}
	}
	return names
}

func declaredNames(declared ast.Decl) (names []string) {
	switch declared := declared.(type) {
	case *ast.FuncDecl:
		if declared.Recv == nil {
			names = append(names, declared.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range declared.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

func TestTheNamesOfThePagesAreExported(t *testing.T) {
	names := exportedNames(t)
	for _, page := range documented(t) {
		if page.path == behavioursFile || page.path == featuresFile {
			continue // Their names are tests: see TestTheTableOfBehavioursNamesTestsThatExist.
		}
		for _, match := range inlineCode.FindAllStringSubmatch(page.content, -1) {
			for _, use := range exportedUse.FindAllString(match[1], -1) {
				if !names[use] {
					t.Errorf("%s: there is no %s", page.path, use)
				}
			}
		}
	}
}

var (
	commandLine  = regexp.MustCompile(`(?m)^    ((?:nice \S+ \S+ )?go (?:test|run|build|vet) [^#\n]*)`)
	testPattern  = regexp.MustCompile(`-(?:run|fuzz|bench)[ =]'?([^' ]+)'?`)
	packagePaths = regexp.MustCompile(` (\./[\w./-]+)`)
)

// TestTheGoCommandsOfThePagesNameWhatExists checks folders and tests. The flags are checked where
// the programs are.
func TestTheGoCommandsOfThePagesNameWhatExists(t *testing.T) {
	tests := map[string][]string{} // by folder
	for _, source := range moduleFiles(t) {
		folder := filepath.ToSlash(filepath.Dir(source.path))
		tests[folder] = append(tests[folder], functionsIn(t, source)...)
	}
	for _, page := range documented(t) {
		for _, match := range commandLine.FindAllStringSubmatch(page.content, -1) {
			for _, wrong := range wrongInCommand(match[1], tests) {
				t.Errorf("%s: %s: %s", page.path, strings.TrimSpace(match[1]), wrong)
			}
		}
	}
}

// functionsIn returns the names of tests, fuzz tests and benchmarks.
func functionsIn(t *testing.T, source source) (names []string) {
	t.Helper()
	if !isTest(source.path) {
		return []string{}
	}
	for _, match := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`).FindAllStringSubmatch(source.content, -1) {
		names = append(names, match[1])
	}
	return names
}

func wrongInCommand(command string, tests map[string][]string) (wrong []string) {
	command, _, _ = strings.Cut(command, " > ")
	var folders []string
	for _, match := range packagePaths.FindAllStringSubmatch(command, -1) {
		folder := strings.TrimSuffix(strings.TrimPrefix(match[1], "./"), "/...")
		if _, exists := tests[folder]; !exists && folder != "..." {
			wrong = append(wrong, "there is no package "+match[1])
		}
		folders = append(folders, folder)
	}
	if !strings.HasPrefix(command, "go test") {
		return wrong
	}
	for _, match := range testPattern.FindAllStringSubmatch(command, -1) {
		pattern, err := regexp.Compile(match[1])
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		if match[1] != "^$" && !slices.ContainsFunc(folders, func(folder string) bool { return slices.ContainsFunc(tests[folder], pattern.MatchString) }) {
			wrong = append(wrong, fmt.Sprintf("no test matches %s", match[1]))
		}
	}
	return wrong
}

func TestACommandThatNamesNothingIsFound(t *testing.T) {
	tests := map[string][]string{"cache": {"TestIt", "FuzzIt"}, "bench": nil}
	for command, want := range map[string]int{
		"go test ./cache -run It":                         0,
		"go test ./cache -run '^$' -fuzz FuzzIt":          0,
		"go test ./cache -run Gone":                       1,
		"go test ./gone":                                  1,
		"go run ./bench run --out DIR":                    0,
		"go test ./cache -run 'It|Gone' -args -oracle=10": 0,
		"go test ./...":                                   0,
	} {
		if wrong := wrongInCommand(command, tests); len(wrong) != want {
			t.Errorf("%s: got %q, want %d", command, wrong, want)
		}
	}
}
