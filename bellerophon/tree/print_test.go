package tree_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/tree"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const printed = `waiting Hero.acme.io a/hero  Late: it waits [31mfor hay  for 3m
|- ready   ConfigMap a/hero  age 3h
|- unknown Stable a/north is being deleted  KeptInPart: a part alone
|  ` + "`" + `- ready   Horse pegasus  age 5d
` + "`" + `- more is left out: the tree is too large, or has a cycle
`

func TestATreeIsPrintedInASCIIOnAPipe(t *testing.T) {
	at := func(before time.Duration) *time.Time { return new(noon.Add(-before)) }
	got := strings.Join(tree.NewPrinter(screen.To(io.Discard), tree.DefaultLimit).Lines(introspection.Node{
		Kind: "Hero.acme.io", Namespace: "a", Name: "hero", Ready: introspection.NotReady, Reason: "Late", Message: "it waits\x1b[31mfor hay", Since: at(3 * time.Minute), Created: at(time.Hour), LeftOut: true,
		Children: []introspection.Node{
			{Kind: "ConfigMap", Namespace: "a", Name: "hero", Ready: introspection.Ready, Created: at(3 * time.Hour)},
			{Kind: "Stable", Namespace: "a", Name: "north", Ready: introspection.Unknown, Reason: "KeptInPart", Message: "a part alone", Deleting: true,
				Children: []introspection.Node{{Kind: "Horse", Name: "pegasus", Ready: introspection.Ready, Created: at(120 * time.Hour)}}},
		},
	}, noon, 0), "\n") + "\n"
	if got != printed {
		t.Errorf("it prints\n%s, want\n%s", got, printed)
	}
}

func TestRootsSayHowManyThereAreMore(t *testing.T) {
	for want, roots := range map[string]introspection.Roots{
		"ready   Hero a/one  age 10s\nand 6 more, later by kind and name; choose with --search, or raise --limit\n": {Total: 7, Objects: []introspection.Node{{Kind: "Hero", Namespace: "a", Name: "one", Ready: introspection.Ready, Created: new(noon.Add(-10 * time.Second))}}},
		"no object is found; look at --namespace and --search\n":                                                    {},
	} {
		got := strings.Join(tree.NewPrinter(screen.To(io.Discard), tree.DefaultLimit).RootLines(roots, noon), "\n") + "\n"
		if got != want {
			t.Errorf("it prints %q, want %q", got, want)
		}
	}
}

// The enemy is an object that owns 5,000 others.
func TestATreeWithManyChildrenShowsTheOnesThatAreNotReadyAndCountsTheOthers(t *testing.T) {
	root := introspection.Node{Kind: "Hero", Name: "hero", Ready: introspection.NotReady}
	for i := range 5000 {
		child := introspection.Node{Kind: "Pod", Name: fmt.Sprintf("pod-%04d", i), Ready: introspection.Ready}
		switch {
		case i%1000 == 999:
			child.Ready = introspection.NotReady
		case i == 4000:
			child.Ready = introspection.Unknown
		}
		root.Children = append(root.Children, child)
	}
	lines := tree.NewPrinter(screen.To(io.Discard), 8).Lines(root, noon, 0)
	want := []string{"waiting Hero hero", "|- waiting Pod pod-0999", "|- waiting Pod pod-1999", "|- waiting Pod pod-2999", "|- waiting Pod pod-3999", "|- unknown Pod pod-4000",
		"|- waiting Pod pod-4999", "|- ready   Pod pod-0000", "|- ready   Pod pod-0001", "`- and 4992 more: 4992 ready, 0 not ready, 0 unknown; raise --limit"}
	if !slices.Equal(lines, want) {
		t.Errorf("it prints\n%s", strings.Join(lines, "\n"))
	}
	few := tree.NewPrinter(screen.To(io.Discard), 5).Lines(root, noon, 0)
	if last := few[len(few)-1]; last != "`- and 4995 more: 4994 ready, 1 not ready, 0 unknown; raise --limit" {
		t.Errorf("it prints %q", last)
	}
}

func TestWhatIsNoObjectIsNoTree(t *testing.T) {
	if tree.Check(introspection.Node{}) == nil || tree.Check(introspection.Node{Kind: "Hero", Name: "hero"}) != nil {
		t.Error("nonsense is taken for a tree")
	}
}

func TestAnObjectThatIsGoneIsALine(t *testing.T) {
	lines := tree.NewPrinter(screen.To(io.Discard), 5).Lines(introspection.Node{Kind: "Hero", Name: "hero", Ready: introspection.NotReady, Gone: true, Created: &noon}, noon, 0)
	if !slices.Equal(lines, []string{"waiting Hero hero is gone"}) {
		t.Errorf("it prints %q", lines)
	}
}

func TestANameThatIsTooLongForATerminalLosesItsGroupAndThenItsNamespace(t *testing.T) {
	root := introspection.Node{Kind: "Hero.acme.io", Namespace: "stables", Name: "pegasus", Ready: introspection.NotReady, Gone: true}
	for width, want := range map[int]string{0: "Hero.acme.io stables/pegasus is gone", 38: "Hero.acme.io stables/pegasus is gone", 37: "Hero stables/pegasus is gone", 29: "Hero pegasus is gone", 5: "Hero pegasus is gone"} {
		if got := tree.NewPrinter(screen.To(io.Discard), 5).Lines(root, noon, width); got[0] != "waiting "+want {
			t.Errorf("in %d columns it prints %q, want %q", width, got[0], want)
		}
	}
}
