package tree_test

import (
	"bytes"
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
	var out bytes.Buffer
	tree.NewPrinter(screen.To(&out), noon).Print(introspection.Node{
		Kind: "Hero.acme.io", Namespace: "a", Name: "hero", Ready: introspection.NotReady, Reason: "Late", Message: "it waits\x1b[31mfor hay", Since: at(3 * time.Minute), Created: at(time.Hour), LeftOut: true,
		Children: []introspection.Node{
			{Kind: "ConfigMap", Namespace: "a", Name: "hero", Ready: introspection.Ready, Created: at(3 * time.Hour)},
			{Kind: "Stable", Namespace: "a", Name: "north", Ready: introspection.Unknown, Reason: "KeptInPart", Message: "a part alone", Deleting: true,
				Children: []introspection.Node{{Kind: "Horse", Name: "pegasus", Ready: introspection.Ready, Created: at(120 * time.Hour)}}},
		},
	})
	if out.String() != printed {
		t.Errorf("it prints\n%s, want\n%s", out.String(), printed)
	}
}

func TestRootsSayHowManyThereAreMore(t *testing.T) {
	for want, roots := range map[string]introspection.Roots{
		"ready   Hero a/one  age 10s\nand 6 more; choose with --search, or raise --limit\n": {Total: 7, Objects: []introspection.Node{{Kind: "Hero", Namespace: "a", Name: "one", Ready: introspection.Ready, Created: new(noon.Add(-10 * time.Second))}}},
		"no object is found; look at --namespace and --search\n":                            {},
	} {
		var out bytes.Buffer
		tree.NewPrinter(screen.To(&out), noon).PrintRoots(roots)
		if out.String() != want {
			t.Errorf("it prints %q, want %q", out.String(), want)
		}
	}
}
