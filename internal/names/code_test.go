package names

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/golden"
)

// list returns the file of a list.
func list(name string) string { return filepath.Join(root, "docs", "names", name) }

func TestTheEnvironmentVariablesAreListed(t *testing.T) {
	var rows []string
	for _, folder := range folders(t) {
		folder.each(func(node ast.Node) {
			call, is := node.(*ast.CallExpr)
			if !is || len(call.Args) != 1 || printed(call.Fun) != "os.Getenv" && printed(call.Fun) != "os.LookupEnv" {
				return
			}
			switch name, is := text(call.Args[0]); {
			case is:
				rows = append(rows, name)
			case printed(call.Args[0]) == "settings.Variable(name)":
				rows = append(rows, settings(t)...)
			default:
				t.Errorf("%s reads an environment variable whose name this test does not find: %s", folder.path, printed(call.Args[0]))
			}
		})
	}
	golden.Names(t, list("environment.txt"), rows)
}

// settings returns the environment variables of bellerophon/server/settings.
func settings(t *testing.T) (names []string) {
	for _, folder := range folders(t) {
		if folder.path != "bellerophon/server/settings" {
			continue
		}
		folder.each(func(node ast.Node) {
			if values, is := node.(*ast.CompositeLit); is {
				for _, value := range values.Elts {
					name, _ := text(value)
					names = append(names, "BELLEROPHON_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
				}
			}
		})
	}
	if len(names) == 0 {
		t.Error("bellerophon/server/settings has no list of settings")
	}
	return names
}

// metadata matches the keys of labels and annotations, and finalizers, of this project. A version of an API has the same form.
var metadata = regexp.MustCompile(`^[a-z.-]*bellerophon\.io/([a-z][a-z0-9-]*)?$`)

var version = regexp.MustCompile(`/v\d+((alpha|beta)\d+)?$`)

func TestTheLabelsAnnotationsAndFinalizersAreListed(t *testing.T) {
	var rows []string
	for _, folder := range folders(t) {
		folder.each(func(node ast.Node) {
			literal, is := node.(*ast.BasicLit)
			if !is {
				return
			}
			if value, is := text(literal); is && metadata.MatchString(value) && !version.MatchString(value) {
				rows = append(rows, value)
			}
		})
	}
	golden.Names(t, list("metadata.txt"), rows)
}

// reported are reasons of Events that are no constants.
var reported = map[string]string{
	"is.Reason":                        "(the reason of the condition Degraded)",
	"reasonsOfPatterns[found.Pattern]": "(the reason of the condition Stalled)",
}

// Each Event has a reason, a type and an action: see controller.Recorder.
func TestTheReasonsOfEventsAreListed(t *testing.T) {
	var rows []string
	for _, folder := range folders(t) {
		if folder.path == "controller/compat" { // It passes on what the reconciler of a user gives it.
			continue
		}
		constants := folder.constants("")
		folder.each(func(node ast.Node) {
			call, is := node.(*ast.CallExpr)
			if !is || len(call.Args) != 4 {
				return
			}
			method, is := call.Fun.(*ast.SelectorExpr)
			if !is || method.Sel.Name != "Normal" && method.Sel.Name != "Warning" {
				return
			}
			reason, is := text(call.Args[1])
			if !is {
				reason = constants[printed(call.Args[1])] + reported[printed(call.Args[1])]
			}
			action, _ := text(call.Args[2])
			if reason == "" || action == "" {
				t.Errorf("%s records an Event whose reason or action this test does not find: %s, %s", folder.path, printed(call.Args[1]), printed(call.Args[2]))
			}
			rows = append(rows, reason+"\t"+method.Sel.Name+"\t"+action+"\t"+ownerOf(folder.path))
		})
	}
	golden.Names(t, list("events.txt"), rows)
}

// ownerOf returns what has the conditions or the Events of a folder: a kind, or what programs use.
func ownerOf(path string) string {
	switch {
	case strings.HasPrefix(path, "bellerophon/hero"), strings.HasPrefix(path, "bellerophon/api/hero"):
		return "Bellerophon"
	case strings.HasPrefix(path, "bellerophon/"):
		return "BellerophonSimple"
	}
	return "library"
}

func TestTheTypesAndReasonsOfConditionsAreListed(t *testing.T) {
	var rows []string
	all := folders(t)
	for _, folder := range all {
		types, reasons := conditionsIn(t, folder, all)
		for _, name := range types {
			rows = append(rows, name+"\ttype\t"+ownerOf(folder.path))
		}
		for _, name := range reasons {
			rows = append(rows, name+"\treason\t"+ownerOf(folder.path))
		}
	}
	golden.Names(t, list("conditions.txt"), rows)
}

// converted are reasons that are values of other types: the folder and the name of the type.
var converted = map[string][2]string{
	"string(status.Phase)": {"bellerophon/api/hero/v1", "Phase"},
	"string(state)":        {"controller/dependents", "State"},
	"string(status.State)": {"controller/dependents", "State"},
}

var (
	constantOfType   = regexp.MustCompile(`^[cC]ondition[A-Z]`)
	constantOfReason = regexp.MustCompile(`^[rR]eason[A-Z]`)
	camelCase        = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
)

// conditionsIn returns the types and the reasons of conditions in a folder. A reason is in a constant, in a field Reason, or beside
// the type in the arguments of a function.
func conditionsIn(t *testing.T, in folder, all []folder) (types, reasons []string) {
	constants := in.constants("")
	for name, value := range constants {
		switch {
		case constantOfType.MatchString(name):
			types = append(types, value)
		case constantOfReason.MatchString(name):
			reasons = append(reasons, value)
		}
	}
	var add func(from ast.Expr, before string)
	add = func(from ast.Expr, before string) {
		value, is := text(from)
		if named := constants[printed(from)]; named != "" {
			value, is = named, true
		}
		if is && camelCase.MatchString(value) {
			reasons = append(reasons, before+value)
			return
		}
		switch from := from.(type) {
		case *ast.BinaryExpr:
			if value, is := text(from.X); is && camelCase.MatchString(value) {
				add(from.Y, value)
			}
		case *ast.CallExpr:
			if printed(from.Fun) == "string" {
				other, known := converted[printed(from)]
				if !known {
					t.Errorf("%s: this test does not find the reasons that are %s", in.path, printed(from))
				}
				for _, folder := range all {
					if folder.path == other[0] {
						for _, value := range folder.constants(other[1]) {
							reasons = append(reasons, before+value)
						}
					}
				}
				return
			}
			for _, argument := range from.Args {
				add(argument, before)
			}
		}
	}
	in.each(func(node ast.Node) {
		switch node := node.(type) {
		case *ast.KeyValueExpr:
			if name := printed(node.Key); name == "Reason" || name == "reason" {
				add(node.Value, "")
			}
		case *ast.AssignStmt:
			for i, to := range node.Lhs {
				if field, is := to.(*ast.SelectorExpr); is && len(node.Lhs) == len(node.Rhs) && strings.EqualFold(field.Sel.Name, "reason") {
					add(node.Rhs[i], "")
				}
			}
		case *ast.ValueSpec:
			for i, name := range node.Names {
				if values, is := valueOf(node, i).(*ast.CompositeLit); is && strings.HasPrefix(name.Name, "reasons") {
					for _, value := range values.Elts {
						if pair, is := value.(*ast.KeyValueExpr); is {
							add(pair.Value, "")
						}
					}
				}
			}
		case *ast.CompositeLit:
			if node.Type != nil && strings.EqualFold(printed(node.Type), "problem") && len(node.Elts) > 0 {
				add(node.Elts[0], "")
			}
		case *ast.CallExpr:
			if slices.ContainsFunc(node.Args, isConditionType) {
				for _, argument := range node.Args {
					if !isConditionType(argument) {
						add(argument, "")
					}
				}
			}
		}
	})
	return types, reasons
}

func valueOf(spec *ast.ValueSpec, i int) ast.Expr {
	if i < len(spec.Values) {
		return spec.Values[i]
	}
	return nil
}

// isConditionType reports whether an argument is a constant with the type of a condition.
func isConditionType(argument ast.Expr) bool {
	name := printed(argument)
	return constantOfType.MatchString(name[strings.LastIndex(name, ".")+1:])
}

func TestAReasonIsFoundWhereverItIsWritten(t *testing.T) {
	const code = `package p
const ConditionReady, ReasonIdle, hidden = "Ready", "Idle", "Hidden"
const prefix, note = "Before", "a note"
var reasonsOf = map[int]string{1: "FromMap"}
func f() {
	_ = Condition{Type: "T", Reason: "InField", Message: "NotThis"}
	_ = problem{"First", "NotThis"}
	made.Reason = "Assigned"
	made.Status, made.Reason = "NotThis", hidden
	set(v1.ConditionDegraded, true, "InCall", "a message")
	set(ConditionReady, true, either(yes, "Chosen", "OrThis"), note)
	other("NotThis", "NorThis")
}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", code, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	types, reasons := conditionsIn(t, folder{"p", map[string]*ast.File{"p.go": file}}, nil)
	slices.Sort(reasons)
	if want := []string{"Assigned", "Chosen", "First", "FromMap", "Hidden", "Idle", "InCall", "InField", "OrThis"}; !slices.Equal(reasons, want) {
		t.Errorf("the reasons are %q, want %q", reasons, want)
	}
	if !slices.Equal(types, []string{"Ready"}) {
		t.Errorf("the types are %q", types)
	}
}
