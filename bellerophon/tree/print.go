// Package tree prints what an object of a running operator consists of.
package tree

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
)

// Question returns the question for the tree of an object, given as RESOURCE/NAME.
func Question(object, namespace string, follow bool) ask.Question {
	return ask.Question{Path: "/debug/tree", Query: url.Values{"object": {object}, "namespace": {namespace}}, Follow: follow}
}

// RootsQuestion returns the question for objects that controllers reconcile. An empty namespace stands for all.
func RootsQuestion(namespace, search string, limit int) ask.Question {
	return ask.Question{Path: "/debug/tree", Query: url.Values{"namespace": {namespace}, "search": {search}, "limit": {strconv.Itoa(limit)}}}
}

// DefaultLimit is how many objects are listed, and how many children of one object are shown.
const DefaultLimit = 200

// MaxLimit is the highest limit that a server accepts.
const MaxLimit = 1000

// Printer makes lines of trees.
type Printer struct {
	screen *screen.Screen
	limit  int       // of the children of one object
	now    time.Time // for ages
	width  int       // of the lines, or 0 for no limit
}

// NewPrinter creates a printer, which shows up to limit children of each object. The screen knows whether it has signs and colours.
func NewPrinter(of *screen.Screen, limit int) *Printer { return &Printer{screen: of, limit: limit} }

// branches are the signs of a tree: before a child, before the last child, and below each.
type branches struct{ child, last, below, end string }

var (
	drawn = branches{"├─ ", "└─ ", "│  ", "   "}
	plain = branches{"|- ", "`- ", "|  ", "   "}
)

// Lines returns a line for each object of a tree. Ages are up to now. On a pipe they are ASCII. A name that is too long for the width
// has no group, and then no namespace. 0 is no limit.
func (p *Printer) Lines(root introspection.Node, now time.Time, width int) []string {
	p.now, p.width = now, width
	return p.node(nil, &root, "", "")
}

// RootLines returns a line for each object, and says how many there are more.
func (p *Printer) RootLines(roots introspection.Roots, now time.Time) (lines []string) {
	p.now, p.width = now, 0
	for i := range roots.Objects {
		lines = p.node(lines, &roots.Objects[i], "", "")
	}
	if more := roots.Total - len(roots.Objects); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more, later by kind and name; choose with --search, or raise --limit", more))
	}
	if roots.Total == 0 {
		lines = append(lines, "no object is found; look at --namespace and --search")
	}
	return lines
}

// node appends the lines of an object and its children.
func (p *Printer) node(lines []string, of *introspection.Node, before, below string) []string {
	lines = append(lines, before+p.line(of, utf8.RuneCountInString(before)))
	signs := plain
	if p.screen.IsLive() {
		signs = drawn
	}
	shown, last := p.chosen(of)
	for i, child := range shown {
		if i == len(shown)-1 && last == "" {
			lines = p.node(lines, child, below+signs.last, below+signs.end)
		} else {
			lines = p.node(lines, child, below+signs.child, below+signs.below)
		}
	}
	if last != "" {
		lines = append(lines, below+signs.last+last)
	}
	return lines
}

// chosen returns the children that are shown, and a text about the others. The ones that are not ready come before the ready ones if
// there are too many.
func (p *Printer) chosen(of *introspection.Node) (shown []*introspection.Node, others string) {
	left := map[introspection.Readiness]int{}
	room := p.limit
	for _, isReady := range []bool{false, true} {
		for i := range of.Children {
			child := &of.Children[i]
			switch {
			case (child.Ready == introspection.Ready) != isReady:
			case room > 0:
				room--
				shown = append(shown, child)
			default:
				left[child.Ready]++
			}
		}
	}
	if len(shown) == len(of.Children) { // In their own order.
		for i := range of.Children {
			shown[i] = &of.Children[i]
		}
	} else {
		others = fmt.Sprintf("and %d more: %d ready, %d not ready, %d unknown; raise --limit", len(of.Children)-len(shown),
			left[introspection.Ready], left[introspection.NotReady], left[introspection.Unknown])
	}
	if of.LeftOut {
		others = strings.TrimPrefix(others+"; more is left out: the tree is too large, or has a cycle", "; ")
	}
	return shown, others
}

// line returns the line of an object, which begins at a column: its readiness, its name, why it is not ready, and its age.
func (p *Printer) line(of *introspection.Node, column int) string {
	end := ""
	switch {
	case of.Gone:
		end = " is gone"
	case of.Deleting:
		end = " is being deleted"
	}
	line := p.mark(of) + " " + p.name(of, p.width-column-len("x ")-len(end)) + p.screen.Paint(screen.Yellow, end)
	if of.Gone {
		return line
	}
	var why []string
	for _, part := range []string{of.Reason, of.Message} {
		if part != "" {
			why = append(why, screen.Clean(part))
		}
	}
	if of.Ready != introspection.Ready && len(why) > 0 {
		line += "  " + strings.Join(why, ": ")
	}
	switch {
	case of.Since != nil:
		line += p.screen.Paint(screen.Dim, "  for "+age(p.now.Sub(*of.Since)))
	case of.Created != nil:
		line += p.screen.Paint(screen.Dim, "  age "+age(p.now.Sub(*of.Created)))
	}
	return line
}

// name returns the kind and the name of an object. If they are too long for the columns, the group and then the namespace are left out.
func (p *Printer) name(of *introspection.Node, columns int) (name string) {
	kind, _, _ := strings.Cut(of.Kind, ".")
	long := of.Name
	if of.Namespace != "" {
		long = of.Namespace + "/" + of.Name
	}
	for _, name = range []string{of.Kind + " " + long, kind + " " + long, kind + " " + of.Name} {
		if p.width == 0 || utf8.RuneCountInString(name) <= columns {
			break
		}
	}
	return screen.Clean(name)
}

// mark returns the sign of the readiness.
func (p *Printer) mark(of *introspection.Node) string {
	live := p.screen.IsLive()
	switch {
	case of.Ready == introspection.Ready && live:
		return p.screen.Paint(screen.Green, "✓")
	case of.Ready == introspection.Ready:
		return "ready  "
	case of.Ready == introspection.NotReady && live:
		return p.screen.Paint(screen.Red, "✗")
	case of.Ready == introspection.NotReady:
		return "waiting"
	case live:
		return p.screen.Paint(screen.Dim, "…")
	}
	return "unknown"
}

// age formats an age as kubectl does.
func age(d time.Duration) string {
	switch d = max(0, d); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
