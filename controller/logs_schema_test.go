package controller

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/golden"
)

// loggedIn returns the calls in a file that log a constant message, as rows of docs/logs.md.
func loggedIn(t *testing.T, path string) (rows []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		call, isCall := node.(*ast.CallExpr)
		if !isCall || len(call.Args) == 0 {
			return true
		}
		called, isMethod := call.Fun.(*ast.SelectorExpr)
		if !isMethod || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, called.Sel.Name) {
			return true
		}
		message, isConstant := text(call.Args[0])
		if !isConstant {
			if !slices.Contains([]string{"log", "logger", "Logger", "With", "bounded", "boundedLog", "failed"}, lastName(called.X)) {
				return true // a sink of a stream, or an answer of HTTP
			}
			t.Errorf("%s: a call of %s has a message that is not constant", path, called.Sel.Name)
		}
		var keys []string
		for i := 1; i < len(call.Args); i += 2 {
			key, isConstant := text(call.Args[i])
			if !isConstant {
				t.Errorf("%s: %q has a key that is not constant", path, message)
			}
			keys = append(keys, "`"+key+"`")
		}
		if keys == nil {
			keys = []string{"none"}
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", message, called.Sel.Name, strings.Join(keys, ", ")))
		return true
	})
	return rows
}

// lastName returns the last name in an expression that is called or selected from, such as Logger for a.Logger(ctx).
func lastName(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.SelectorExpr:
		return of.Sel.Name
	case *ast.CallExpr:
		return lastName(of.Fun)
	case *ast.CompositeLit:
		return lastName(of.Type)
	}
	return ""
}

// text returns the value of an expression that is a string.
func text(of ast.Expr) (value string, isConstant bool) {
	literal, is := of.(*ast.BasicLit)
	if !is || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

// loggedBelow returns the rows of all files below a folder, as loggedIn does.
func loggedBelow(t *testing.T, root string) (rows []string) {
	t.Helper()
	if err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{"examples", "compat", "tracing", "crashtest"}, entry.Name()) {
			return fs.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			rows = append(rows, loggedIn(t, path)...)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}

// namesOf turns rows of docs/logs.md into rows of docs/names.
func namesOf(rows []string) (names []string) {
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		names = append(names, strings.ReplaceAll(strings.Join(cells, "\t"), "`", ""))
	}
	return names
}

func TestEachMessageOfTheLogIsDocumentedWithItsLevelAndKeys(t *testing.T) {
	page, err := os.ReadFile("../docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]bool{}
	for _, root := range []string{".", "../cache", "../operators", "../sources", "../bellerophon/command", "../bellerophon/operator", "../bellerophon/hero", "../bellerophon/simple"} {
		for _, row := range loggedBelow(t, root) {
			written[row] = true
			if !strings.Contains(string(page), "\n"+row) {
				t.Errorf("%s writes a record that docs/logs.md does not have:\n%s", root, row)
			}
		}
	}
	golden.Names(t, "../docs/names/logs.txt", namesOf(slices.Collect(maps.Keys(written))))
	golden.Names(t, "../docs/names/logs-programs.txt", namesOf(append(loggedBelow(t, "../bellerophon/server"), loggedBelow(t, "../bellerophon/dev")...)))
	records, _, _ := strings.Cut(string(page), "\n## ")
	for line := range strings.Lines(records) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `") && !written[strings.Join(cells[:3], " | ")+" |"] {
			t.Errorf("nothing writes the record of docs/logs.md:\n%s", line)
		}
	}
}
