package ranks

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheModuleKeepsItsRules(t *testing.T) {
	sources := moduleFiles(t)
	for _, want := range []string{"internal/lifecycle/lifecycle.go", "bellerophon/main.go", "bench/main.go"} {
		if !slices.ContainsFunc(sources, func(s source) bool { return s.path == want }) {
			t.Fatalf("found %d files, but not %s", len(sources), want)
		}
	}
	for _, violation := range violations(sources) {
		t.Error(violation)
	}
}

// moduleFiles reads the Go files of all packages of the modules in go.work, those that a
// build constraint leaves out as well. It walks the folders itself, as ./... does: the go
// command caches the result of a test by the files and folders that the test opens, and
// would not see a new file that only a go list in a process of its own has seen.
func moduleFiles(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	modules := workModules(t)
	var sources []source
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != root && isNoPackage(name, modules) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(entry.Name(), "_") || strings.HasPrefix(entry.Name(), ".") {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		sources = append(sources, source{filepath.ToSlash(relative), string(content)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// isNoPackage reports whether ./... leaves out a folder in all of the modules: a hidden one,
// test data, or a module that go.work does not use.
func isNoPackage(folder string, modules []string) bool {
	base := filepath.Base(folder)
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "vendor" {
		return true
	}
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil && !slices.Contains(modules, filepath.Clean(folder))
}

func TestEachRuleFindsItsViolation(t *testing.T) {
	const described = "// Package p is described.\npackage p\n"
	imports := func(pkg string) string {
		return described + "import _ \"" + strings.TrimSuffix(module+"/"+pkg, "/") + "\"\n"
	}
	long := strings.Repeat("\n", longestFile)
	for name, test := range map[string]struct{ path, content, want string }{
		"lower rank":                      {"cache/a.go", imports("streams"), ""},
		"same folder":                     {"cache/a/a.go", imports("cache/b"), ""},
		"lifecycle":                       {"streams/a.go", imports("internal/lifecycle"), ""},
		"outside":                         {"streams/a.go", described + "import _ \"" + module + "-other/bench\"\n", ""},
		"same rank":                       {"cache/a.go", imports("sources"), "cache/a.go:3: cache (rank 1) may not import sources (rank 1): imports only point to a lower rank"},
		"higher rank":                     {"operators/a.go", imports("controller"), "operators/a.go:3: operators (rank 1) may not import controller (rank 2): imports only point to a lower rank"},
		"higher rank in a test":           {"cache/a_test.go", imports("controller"), "cache/a_test.go:3: cache (rank 1) may not import controller (rank 2): imports only point to a lower rank"},
		"higher rank deep inside":         {"controller/a/a.go", imports("bellerophon/api/simple/v1"), "controller/a/a.go:3: controller/a (rank 2) may not import bellerophon/api/simple/v1 (rank 3): imports only point to a lower rank"},
		"the root":                        {"bench/a.go", imports(""), "bench/a.go:3: bench (rank 4) may not import . (rank 5): imports only point to a lower rank"},
		"lifecycle imports":               {"internal/lifecycle/a.go", imports("streams"), "internal/lifecycle/a.go:3: internal/lifecycle (rank -1) may not import streams (rank 0): imports only point to a lower rank"},
		"sourcestest in a test":           {"cache/a_test.go", imports("sources/sourcestest"), ""},
		"faultproxy in a test":            {"cache/a_test.go", imports("sources/faultproxy"), ""},
		"sourcestest in a program":        {"cache/a.go", imports("sources/sourcestest"), "cache/a.go:3: cache (rank 1) may not import sources/sourcestest (rank 1): imports only point to a lower rank"},
		"local cluster in bench":          {"bench/a.go", imports("internal/localcluster"), ""},
		"local cluster in a test":         {"streams/a_test.go", imports("internal/localcluster/clustertest"), ""},
		"local cluster in the controller": {"controller/a.go", imports("internal/localcluster"), "controller/a.go:3: only bellerophon, bench, controller/controllertest, controller/compat/internal/porttest and tests import internal/localcluster"},
		"charts in the product":           {"bellerophon/simple/a.go", imports("charts"), ""},
		"charts in bench":                 {"bench/a.go", imports("charts"), "bench/a.go:3: only bellerophon and tests import charts"},
		"charts in a test":                {"bench/a_test.go", imports("charts"), ""},
		"charts import":                   {"charts/a.go", imports("streams"), "charts/a.go:3: charts (rank 0) may not import streams (rank 0): imports only point to a lower rank"},
		"a folder without a rank":         {"extra/a.go", described, "extra/a.go:2: folder extra has no rank: give it one in internal/ranks"},
		"an internal without a rank":      {"internal/extra/a.go", described, "internal/extra/a.go:2: folder internal/extra has no rank: give it one in internal/ranks"},
		"a go statement":                  {"cache/a.go", described + "func f() {\n\tfunc() { go f() }()\n}\n", "cache/a.go:4: only internal/lifecycle has go statements: use lifecycle.Group"},
		"a go statement in a test":        {"cache/a_test.go", "package p\nfunc f() { go f() }\n", "cache/a_test.go:2: only internal/lifecycle has go statements: use lifecycle.Group"},
		"a go statement at home":          {"internal/lifecycle/a.go", described + "func f() { go f() }\n", ""},
		"a time in nanoseconds":           {"cache/a.go", described + "var a = time.Now().UnixNano()\n", "cache/a.go:3: UnixNano drops the reading of the monotonic clock: keep it, or name the file in wallTimes of internal/ranks"},
		"a time that is cut":              {"streams/a.go", described + "var a = time.Now().Truncate(time.Second)\n", "streams/a.go:3: Truncate drops the reading of the monotonic clock: keep it, or name the file in wallTimes of internal/ranks"},
		"a time without its clock":        {"streams/a.go", described + "var a = time.Now().Round(0)\n", "streams/a.go:3: Round drops the reading of the monotonic clock: keep it, or name the file in wallTimes of internal/ranks"},
		"a buffer that is cut":            {"streams/a.go", described + "func f() { b.Truncate(1) }\n", ""},
		"a time that people see":          {"controller/attempts.go", described + "var a = time.Now().UTC()\n", ""},
		"a time in bench":                 {"bench/a.go", described + "var a = time.Now().UnixNano()\n", ""},
		"no package comment":              {"cache/a.go", "// Not this one.\n\npackage p\n", "cache/a.go:3: every package has a package comment"},
		"no package comment in a test":    {"cache/a_test.go", "package p\n", ""},
		"the longest file":                {"cache/a.go", described + long[2:], ""},
		"a longer file":                   {"cache/a.go", described + long[1:], "cache/a.go:451: the longest file may have 450 lines"},
		"a longer test":                   {"cache/a_test.go", described + long, ""},
		"a longer generated file":         {"cache/a.go", "// Code generated by a program. DO NOT EDIT.\n\n" + described + long, ""},
		"a name that says nothing":        {"cache/a.go", "// Package utils.\npackage utils\n", "cache/a.go:2: the package name utils says nothing: name what it is about"},
		"such a name in a test":           {"cache/a_test.go", "package common_test\n", "cache/a_test.go:1: the package name common says nothing: name what it is about"},
		"no Go":                           {"cache/a.go", "package\n", "cache/a.go:1:9: expected 'IDENT', found 'EOF': every file has to parse"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(violations([]source{{test.path, test.content}}), "\n")
			if got != test.want {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

func TestOneFileDescribesItsWholePackage(t *testing.T) {
	sources := []source{
		{"cache/a.go", "package cache\n"},
		{"cache/doc.go", "// Package cache is described.\npackage cache\n"},
		{"cache/store/a.go", "package store\n"},
	}
	want := []string{"cache/store/a.go:1: every package has a package comment"}
	if got := violations(sources); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
