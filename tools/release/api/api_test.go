package api

import (
	"bytes"
	"flag"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/tools/release/checkout"
	"go.uber.org/goleak"
	"golang.org/x/tools/go/packages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the API of this checkout to "+baseline+", at a release")

// baseline is the API of the last release.
const baseline = "testdata/api.gz"

// uncovered are the packages that a program can import, but that docs/versions.md promises nothing of.
var uncovered = []string{
	"bellerophon/api/hero/v1alpha0",                                                                                                                 // alpha
	"charts",                                                                                                                                        // files
	"controller/controllertest", "controller/replaytest", "faults", "faults/patterns", "faults/states", "sources/faultproxy", "sources/sourcestest", // for tests
	"controller/examples", "controller/examples/heroes/api", "controller/examples/webhooks/api/v1", "controller/examples/webhooks/api/v2", // to copy
}

func TestEachChangeThatBreaksProgramsIsInTheChangelog(t *testing.T) {
	source := find(t)
	readAll(t, source)
	now, err := Load(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		var written bytes.Buffer
		if err := Write(&written, now); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(baseline, written.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	file, err := os.Open(baseline)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	before, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	changelog, err := os.ReadFile(filepath.Join(source.Root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range Unrecorded(Incompatible(before, now), string(changelog)) {
		t.Errorf("%s\nkeep the old API, as docs/versions.md promises, or write `%s` into the part Unreleased of CHANGELOG.md", change, change.Name)
	}
}

func TestEachPackageIsCoveredOrNot(t *testing.T) {
	source := find(t)
	config := &packages.Config{Context: t.Context(), Dir: source.Root, Mode: packages.NeedName}
	loaded, err := packages.Load(config, "./...", "./controller/compat/...", "./controller/tracing/...", "./bellerophon/api/...")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, each := range loaded {
		if folder := strings.TrimPrefix(each.PkgPath, checkout.Library); each.Name != "main" && folder != "" && !strings.Contains(folder+"/", "/internal/") {
			found = append(found, folder[1:])
		}
	}
	want := slices.Sorted(slices.Values(slices.Concat(Covered, uncovered)))
	slices.Sort(found)
	if found = slices.Compact(found); !slices.Equal(found, want) {
		t.Errorf("the packages are %q, but Covered and uncovered have %q", found, want)
	}
}

func TestChangesThatBreakProgramsAreFound(t *testing.T) {
	const before = "type T struct{ A int }\nfunc (*T) M(int) {}\ntype I interface{ Do() }\nfunc F() error { return nil }\nconst C = 1\n"
	for name, test := range map[string]struct {
		now  string
		want []string
	}{
		"nothing":       {before, nil},
		"an addition":   {before + "func G() {}\n", nil},
		"a field more":  {strings.Replace(before, "A int", "A, B int", 1), nil},
		"a removal":     {strings.Replace(before, "func F", "func f", 1), []string{"p.F: removed"}},
		"a method":      {strings.Replace(before, "M(int)", "M(string)", 1), []string{"p.T.M: changed from func(int) to func(string)"}},
		"an option":     {strings.Replace(before, "M(int)", "M(int, ...string)", 1), []string{"p.T.M: changed from func(int) to func(int, ...string)"}},
		"an interface":  {strings.Replace(before, "Do()", "Do(); Stop()", 1), []string{"p.I.Stop: added"}},
		"a field":       {strings.Replace(before, "A int", "A uint", 1), []string{"p.T.A: changed from int to uint"}},
		"comparability": {strings.Replace(before, "A int", "A int; b []int", 1), []string{"p.T: old is comparable, new is not"}},
		"a value":       {strings.Replace(before, "C = 1", "C = 2", 1), []string{"p.C: value changed from 1 to 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var written bytes.Buffer
			if err := Write(&written, []*types.Package{check(t, before)}); err != nil {
				t.Fatal(err)
			}
			old, err := Read(&written)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, change := range Incompatible(old, []*types.Package{check(t, test.now)}) {
				got = append(got, change.String())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
	if got := Incompatible([]*types.Package{check(t, before)}, nil); !reflect.DeepEqual(got, []Change{{"p", "the package is removed"}}) {
		t.Errorf("without the package, found %v", got)
	}
}

func TestOnlyThePartUnreleasedRecordsAChange(t *testing.T) {
	changes := []Change{{"p.F", "removed"}, {"p.T.M", "removed"}}
	for name, test := range map[string]struct {
		changelog string
		want      []Change
	}{
		"all":                  {"# Changelog\n\n## Unreleased\n\n- `p.F` and `p.T.M`\n\n## 0.1.0\n", nil},
		"one":                  {"## Unreleased\n\n- `p.F`\n", changes[1:]},
		"in an older part":     {"## Unreleased\n\n## 0.1.0\n\n- `p.F`, `p.T.M`\n", changes},
		"the start of another": {"## Unreleased\n\n- `p.Finish`, `p.T`\n", changes},
		"no part":              {"# Changelog\n\n- `p.F`\n", changes},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Unrecorded(changes, test.changelog); len(got) != len(test.want) || !slices.Equal(got, test.want) {
				t.Errorf("not recorded are %v, want %v", got, test.want)
			}
		})
	}
}

func find(t *testing.T) checkout.Checkout {
	t.Helper()
	source, err := checkout.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// readAll reads the files of the covered packages. The go command caches the result of a test by the files that the test
// opens. It does not see what another process opens.
func readAll(t *testing.T, source checkout.Checkout) {
	t.Helper()
	for _, folder := range Covered {
		entries, err := os.ReadDir(filepath.Join(source.Root, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if filepath.Ext(entry.Name()) != ".go" {
				continue
			}
			if _, err := os.ReadFile(filepath.Join(source.Root, folder, entry.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// check returns a package of the library with the given declarations.
func check(t *testing.T, declarations string) *types.Package {
	t.Helper()
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, "p.go", "package p\n"+declarations, 0)
	if err != nil {
		t.Fatal(err)
	}
	config := types.Config{Importer: importer.Default()}
	made, err := config.Check(checkout.Library+"/p", positions, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
