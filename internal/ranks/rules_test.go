// Package ranks has no code: its test holds the rules that no linter knows. Imports point
// to a lower rank, goroutines start in internal/lifecycle, packages say what they are
// for, and files stay short enough to be read at once.
package ranks

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	module       = "github.com/bellerophon-io/bellerophon"
	longestFile  = 450 // lines
	lifecycle    = "internal/lifecycle"
	localcluster = "internal/localcluster"
)

// rank orders the folders: each imports lower ones only. Folders of one rank do not know
// each other, the packages within a folder may.
var rank = map[string]int{
	lifecycle:             -1,
	"internal/subprocess": -1,
	"charts":              0,
	"internal/canary":     0,
	"internal/goals":      0,
	"internal/golden":     0,
	"internal/promtool":   0,
	"internal/promserver": 0,
	"internal/slope":      0,
	localcluster:          0,
	"streams":             0,
	"cache":               1,
	"operators":           1,
	"sources":             1,
	"controller":          2,
	"bellerophon":         3,
	"faults":              3,
	"internal/incidents":  3,
	"bench":               4,
	"tools":               4,
	"":                    5, // the module's root, which documents the others
	"internal/names":      5,
	"internal/ranks":      5,
}

// guests are the folders that not all higher ones import, with the folders and packages that do. Tests may
// import them, whatever their rank.
var guests = map[string][]string{
	"charts":     {"bellerophon"},
	localcluster: {"bellerophon", "bench", "controller/controllertest", "controller/compat/internal/porttest"},
}

// forTests are the packages that tests of any rank import.
var forTests = []string{"sources/sourcestest", "sources/faultproxy", "faults", "faults/states", "internal/incidents"}

// namesThatSayNothing may not be the names of packages.
var namesThatSayNothing = []string{"common", "helper", "helpers", "misc", "util", "utils"}

// source is one Go file of the module, by its path from the root.
type source struct{ path, content string }

// violations checks all files of the module. Each violation says file:line and the rule.
func violations(sources []source) []string {
	var found []string
	described := map[string]bool{} // the folders with a package comment
	first := map[string]string{}   // the position of each folder's first package clause
	positions := token.NewFileSet()
	for _, source := range sources {
		file, err := parser.ParseFile(positions, source.path, source.content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			found = append(found, fmt.Sprintf("%v: every file has to parse", err))
			continue
		}
		report := func(at token.Pos, rule string, details ...any) {
			position := positions.Position(at)
			found = append(found, fmt.Sprintf("%s:%d: ", position.Filename, position.Line)+fmt.Sprintf(rule, details...))
		}
		checkName(file, report)
		checkImports(source.path, file, report)
		checkGoroutines(source.path, file, report)
		if isTest(source.path) {
			continue
		}
		checkClocks(source.path, file, report)
		if lines := strings.Count(source.content, "\n"); lines > longestFile && !ast.IsGenerated(file) {
			found = append(found, fmt.Sprintf("%s:%d: the longest file may have %d lines", source.path, lines, longestFile))
		}
		folder := path.Dir(source.path)
		described[folder] = described[folder] || file.Doc != nil
		if first[folder] == "" {
			first[folder] = fmt.Sprintf("%s:%d", source.path, positions.Position(file.Package).Line)
		}
	}
	for folder, position := range first {
		if !described[folder] {
			found = append(found, position+": every package has a package comment")
		}
	}
	slices.Sort(found)
	return found
}

type reporter func(at token.Pos, rule string, details ...any)

func checkName(file *ast.File, report reporter) {
	name := strings.TrimSuffix(file.Name.Name, "_test")
	if slices.Contains(namesThatSayNothing, name) {
		report(file.Name.Pos(), "the package name %s says nothing: name what it is about", name)
	}
}

func checkGoroutines(name string, file *ast.File, report reporter) {
	if folderOf(path.Dir(name)) == lifecycle {
		return
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if statement, is := node.(*ast.GoStmt); is {
			report(statement.Go, "only %s has go statements: use lifecycle.Group", lifecycle)
		}
		return true
	})
}

// wallTimes are the files of the runtime that may take the time of the system clock, which can jump, and what
// for. All other times keep the reading of the monotonic clock, so a jump changes no duration.
var wallTimes = map[string]string{
	"sources/sourcestest/delete.go":           "the deletion timestamp of an object",
	"controller/attempts.go":                  "shown to people",
	"controller/introspect.go":                "shown to people",
	"controller/history/explain.go":           "shown to people",
	"controller/history/fields.go":            "shown to people",
	"controller/why.go":                       "shown to people",
	"controller/recording/record.go":          "stored in a recording",
	"controller/replay.go":                    "stored in a recording",
	"controller/patterns.go":                  "stored in a recording",
	"controller/tape.go":                      "stored in a recording",
	"controller/tape_exchange.go":             "stored in a recording",
	"bellerophon/replay/replay.go":            "shown to people",
	"controller/tree.go":                      "shown to people",
	"controller/page/gather.go":               "shown to people",
	"controller/page/items.go":                "shown to people",
	"controller/page/past.go":                 "shown to people",
	"controller/page/past_items.go":           "shown to people",
	"controller/page/past_attempts.go":        "stored in a recording",
	"controller/page/past_patterns.go":        "stored in a recording",
	"controller/page/past_why.go":             "stored in a recording",
	"controller/page/past_world.go":           "shown to people",
	"controller/internal/readiness/node.go":   "shown to people",
	"operators/attempt_id.go":                 "a part of the identifier of an attempt",
	"controller/conditions.go":                "the transition time of a condition",
	"controller/dependents/deadline.go":       "stored in a status, so that a deadline outlasts the process",
	"controller/plans/status.go":              "stored in a status, and shown to people",
	"controller/serving_certificate.go":       "the end of a certificate, which is a time of the system clock",
	"controller/webhook/keeper.go":            "the end of a certificate, which is a time of the system clock",
	"controller/webhook/metrics.go":           "the end of a certificate, which is a time of the system clock",
	"controller/webhook/pair.go":              "the end of a certificate, which is a time of the system clock",
	"controller/webhook/server.go":            "the end of a certificate, which is a time of the system clock",
	"controller/webhook/store.go":             "the end of a certificate, which is a time of the system clock",
	"controller/internal/election/compete.go": "written to the Lease for people",
}

// checkClocks finds times of the system clock in the runtime. It knows the methods that drop the reading of the
// monotonic clock: time.Unix, Unix and its like, UTC, Local, Round(0), and Truncate to a unit of time.
func checkClocks(name string, file *ast.File, report reporter) {
	folder := folderOf(path.Dir(name))
	if !slices.Contains([]string{"streams", "cache", "sources", "operators", "controller"}, folder) || wallTimes[name] != "" {
		return
	}
	ast.Inspect(file, func(node ast.Node) bool {
		call, isCall := node.(*ast.CallExpr)
		if !isCall {
			return true
		}
		if called, is := call.Fun.(*ast.SelectorExpr); is && dropsClock(called.Sel.Name, call.Args) {
			report(called.Sel.Pos(), "%s drops the reading of the monotonic clock: keep it, or name the file in wallTimes of internal/ranks", called.Sel.Name)
		}
		return true
	})
}

// dropsClock reports whether a method, if it is one of a time, drops the reading of the monotonic clock.
func dropsClock(method string, arguments []ast.Expr) bool {
	switch method {
	case "Unix", "UnixMilli", "UnixMicro", "UnixNano", "UTC", "Local":
		return true
	case "Round":
		digit, is := arguments[0].(*ast.BasicLit)
		return is && digit.Value == "0"
	case "Truncate":
		unit, is := arguments[0].(*ast.SelectorExpr)
		if !is {
			return false
		}
		of, is := unit.X.(*ast.Ident)
		return is && of.Name == "time"
	}
	return false
}

func checkImports(name string, file *ast.File, report reporter) {
	from := path.Dir(name)
	if _, known := rank[folderOf(from)]; !known {
		report(file.Package, "folder %s has no rank: give it one in internal/ranks", folderOf(from))
		return
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil || (imported != module && !strings.HasPrefix(imported, module+"/")) {
			continue
		}
		to := path.Join(".", strings.TrimPrefix(strings.TrimPrefix(imported, module), "/"))
		if broken := brokenBy(from, to, isTest(name)); broken != "" {
			report(spec.Pos(), "%s", broken)
		}
	}
}

// brokenBy says which rule an import between two packages breaks, if any.
func brokenBy(from, to string, inTest bool) string {
	importer, imported := folderOf(from), folderOf(to)
	importers, guest := guests[imported]
	switch {
	case importer == imported, imported == lifecycle, inTest && (guest || slices.Contains(forTests, to)):
		return ""
	case guest && (slices.Contains(importers, importer) || slices.Contains(importers, from)):
		return ""
	case guest:
		return fmt.Sprintf("only %s and tests import %s", strings.Join(importers, ", "), imported)
	}
	if rank[imported] >= rank[importer] {
		return fmt.Sprintf("%s (rank %d) may not import %s (rank %d): imports only point to a lower rank",
			from, rank[importer], to, rank[imported])
	}
	return ""
}

// folderOf is the folder that gives a package its rank: the first one of its path, and
// under internal the second one too.
func folderOf(pkg string) string {
	if pkg == "." {
		return ""
	}
	parts := strings.Split(pkg, "/")
	if parts[0] == "internal" && len(parts) > 1 {
		return path.Join(parts[0], parts[1])
	}
	return parts[0]
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }
