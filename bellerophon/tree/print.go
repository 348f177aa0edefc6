// Package tree prints what an object of a running operator consists of.
package tree

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
)

// Question returns the question for the tree of an object, given as RESOURCE/NAME.
func Question(object, namespace string) ask.Question {
	return ask.Question{Path: "/debug/tree", Query: url.Values{"object": {object}, "namespace": {namespace}}}
}

// RootsQuestion returns the question for objects that controllers reconcile. An empty namespace stands for all.
func RootsQuestion(namespace, search string, limit int) ask.Question {
	return ask.Question{Path: "/debug/tree", Query: url.Values{"namespace": {namespace}, "search": {search}, "limit": {strconv.Itoa(limit)}}}
}

// Printer prints trees.
type Printer struct {
	screen *screen.Screen
	now    time.Time // for ages
}

// NewPrinter creates a printer. Ages are up to now.
func NewPrinter(to *screen.Screen, now time.Time) *Printer { return &Printer{to, now} }

// branches are the signs of a tree: before a child, before the last child, and below each.
type branches struct{ child, last, below, end string }

var (
	drawn = branches{"├─ ", "└─ ", "│  ", "   "}
	plain = branches{"|- ", "`- ", "|  ", "   "}
)

// Print prints a tree, a line for each object. On a pipe it is ASCII.
func (p *Printer) Print(root introspection.Node) { p.node(&root, "", "") }

// PrintRoots prints objects, and how many there are more.
func (p *Printer) PrintRoots(roots introspection.Roots) {
	for i := range roots.Objects {
		p.node(&roots.Objects[i], "", "")
	}
	if more := roots.Total - len(roots.Objects); more > 0 {
		p.screen.Println(fmt.Sprintf("and %d more; choose with --search, or raise --limit", more))
	}
	if roots.Total == 0 {
		p.screen.Println("no object is found; look at --namespace and --search")
	}
}

func (p *Printer) node(of *introspection.Node, before, below string) {
	p.screen.Println(before + p.line(of))
	signs := plain
	if p.screen.IsLive() {
		signs = drawn
	}
	for i := range of.Children {
		if i == len(of.Children)-1 && !of.LeftOut {
			p.node(&of.Children[i], below+signs.last, below+signs.end)
		} else {
			p.node(&of.Children[i], below+signs.child, below+signs.below)
		}
	}
	if of.LeftOut {
		p.screen.Println(below + signs.last + "more is left out: the tree is too large, or has a cycle")
	}
}

// line returns the line of an object: its readiness, its name, why it is not ready, and its age.
func (p *Printer) line(of *introspection.Node) string {
	name := of.Name
	if of.Namespace != "" {
		name = of.Namespace + "/" + name
	}
	line := p.mark(of) + " " + screen.Clean(of.Kind+" "+name)
	if of.Deleting {
		line += p.screen.Paint(screen.Yellow, " is being deleted")
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
