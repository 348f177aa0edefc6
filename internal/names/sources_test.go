// Package names has no code: its tests keep the lists of docs/names, which hold the names that users depend on. They read the
// names from the sources, and compare the lists with the lists of the last release.
package names

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// root is the path from this folder to the root of the repository.
var root = filepath.Join("..", "..")

// shipped are the folders whose code runs at users.
var shipped = []string{"bellerophon", "cache", "controller", "internal/localcluster", "operators", "sources", "streams"}

// forTests are folders in them whose code runs in tests, or is copied and changed.
var forTests = []string{
	"bellerophon/dev/devtest", "bellerophon/server/servertest", "bellerophon/simple/seeded", "bellerophon/simple/states", "controller/compat/agentsandbox", "controller/compat/internal",
	"controller/compat/jobset", "controller/examples", "controller/internal/crashtest", "internal/localcluster/clustertest", "sources/faultproxy", "sources/sourcestest",
}

// folder is a package, by its path from the root.
type folder struct {
	path  string
	files map[string]*ast.File // by their names
}

// folders returns the packages whose code runs at users.
func folders(t *testing.T) []folder {
	t.Helper()
	found, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var parsed = sync.OnceValues(func() (found []folder, err error) {
	for _, top := range shipped {
		err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(top)), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			path, err := filepath.Rel(root, name)
			if path = filepath.ToSlash(path); err != nil || entry.Name() == "testdata" || slices.Contains(forTests, path) {
				return fs.SkipDir
			}
			names, err := filepath.Glob(filepath.Join(name, "*.go"))
			one := folder{path, map[string]*ast.File{}}
			for _, name := range names {
				if strings.HasSuffix(name, "_test.go") {
					continue
				}
				if one.files[filepath.Base(name)], err = parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution); err != nil {
					return err
				}
			}
			if len(one.files) > 0 {
				found = append(found, one)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
})

// each calls do for each node of the files of a folder.
func (f folder) each(do func(node ast.Node)) {
	for _, file := range f.files {
		ast.Inspect(file, func(node ast.Node) bool {
			do(node)
			return true
		})
	}
}

// constants returns the strings that constants of the folder have, by their names. ofType is the name of their type, or "" for all.
func (f folder) constants(ofType string) map[string]string {
	found := map[string]string{}
	f.each(func(node ast.Node) {
		spec, is := node.(*ast.ValueSpec)
		if !is {
			return
		}
		if named, _ := spec.Type.(*ast.Ident); ofType != "" && (named == nil || named.Name != ofType) {
			return
		}
		for i, name := range spec.Names {
			if i < len(spec.Values) {
				if value, is := text(spec.Values[i]); is {
					found[name.Name] = value
				}
			}
		}
	})
	return found
}

// text returns the value of a literal that is a string.
func text(of ast.Expr) (value string, is bool) {
	literal, is := of.(*ast.BasicLit)
	if !is || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

// printed returns an expression of names, selectors and calls as text.
func printed(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.SelectorExpr:
		return printed(of.X) + "." + of.Sel.Name
	case *ast.IndexExpr:
		return printed(of.X) + "[" + printed(of.Index) + "]"
	case *ast.CallExpr:
		var arguments []string
		for _, argument := range of.Args {
			arguments = append(arguments, printed(argument))
		}
		return printed(of.Fun) + "(" + strings.Join(arguments, ", ") + ")"
	}
	return "?"
}
