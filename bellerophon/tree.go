package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/tree"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/spf13/cobra"
)

func newTree() *cobra.Command {
	var of asked
	var namespace, search string
	var limit int
	var follows bool
	command := &cobra.Command{
		Use:   "tree [RESOURCE/NAME]",
		Short: "Show what an object of a running operator owns, and what is ready",
		Long: `Shows an object and the objects that it owns, as the cache of a running operator has them, each with
its readiness, why it is not ready, and since when. The cache may keep a part of an object alone, so
that its readiness is unknown. Without an object, the objects that controllers reconcile are listed.

With --follow the tree comes again whenever it has changed, until Ctrl-C. A terminal shows the last one.
On a pipe, a line with the time is between two trees. JSON is one document for each change, which may be a
change of a version alone. If the operator ends, tree says so, and asks again for ten minutes.

The user of the token must be allowed to get /debug/tree: see docs/permissions.md.`,
		Example: `  bellerophon tree sheroes/pegasus --server http://127.0.0.1:8080
  bellerophon tree heroes/bellerophon --namespace stables --operator-namespace bellerophon --token-file token
  bellerophon tree sheroes/pegasus --follow
  bellerophon tree --search pegasus --namespace ""
  bellerophon tree sheroes/pegasus --output json | jq '.children[] | select(.ready != "True")'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			switch {
			case limit < 1 || limit > tree.MaxLimit:
				return fmt.Errorf("--limit is %d; allowed is 1 to %d", limit, tree.MaxLimit)
			case len(args) == 0 && follows:
				return errors.New("--follow follows one object; give RESOURCE/NAME")
			case len(args) == 0:
				return printRoots(command.Context(), &of, tree.RootsQuestion(namespace, search, limit), limit)
			case command.Flags().Changed("search"):
				return errors.New("--search chooses among objects; give it without RESOURCE/NAME")
			case follows:
				return followTree(command.Context(), &of, tree.Question(args[0], namespace, true), limit)
			}
			return printTree(command.Context(), &of, tree.Question(args[0], namespace, false), limit)
		},
	}
	of.addFlags(command)
	flags := command.Flags()
	flags.StringVarP(&namespace, "namespace", "n", "default", "the namespace of the object")
	flags.StringVar(&search, "search", "", "without an object: a part of namespace/name")
	flags.IntVar(&limit, "limit", tree.DefaultLimit, "how many objects are listed, or how many children of one object are shown, 1 to 1000")
	flags.BoolVarP(&follows, "follow", "f", false, "go on with the tree whenever it has changed, until Ctrl-C")
	return command
}

func printRoots(ctx context.Context, of *asked, q ask.Question, limit int) error {
	stdout := screen.New(os.Stdout)
	return answers(ctx, of, q, noneIsBetter[introspection.Roots], func(found introspection.Roots) error {
		stdout.Println(strings.Join(tree.NewPrinter(stdout, limit).RootLines(found, time.Now()), "\n"))
		return nil
	})
}

func printTree(ctx context.Context, of *asked, q ask.Question, limit int) error {
	stdout := screen.New(os.Stdout)
	return answers(ctx, of, q, noneIsBetter[introspection.Node], func(root introspection.Node) error {
		if err := tree.Check(root); err != nil {
			return err
		}
		stdout.Println(strings.Join(tree.NewPrinter(stdout, limit).Lines(root, time.Now(), stdout.Width()), "\n"))
		return nil
	})
}

func followTree(ctx context.Context, of *asked, q ask.Question, limit int) error {
	stdout := screen.New(os.Stdout)
	printer := tree.NewPrinter(stdout, limit)
	var last introspection.Node
	each, err := shown(of.output, func(root introspection.Node) error {
		now := time.Now()
		lines := printer.Lines(root, now, 0)
		if last.Name != "" {
			if slices.Equal(lines, printer.Lines(last, now, 0)) { // What has changed is in no line.
				return nil
			}
			stdout.Println(now.Format("15:04:05"))
		}
		last = root
		stdout.Println(strings.Join(lines, "\n"))
		return nil
	})
	if err != nil {
		return err
	}
	return follow(ctx, of, q, noneIsBetter[introspection.Node], view[introspection.Node]{
		add: func(root introspection.Node) error {
			last = root
			return tree.Check(root)
		},
		lines: func(width int) []string { return printer.Lines(last, time.Now(), width) },
		each: func(root introspection.Node) error {
			if err := tree.Check(root); err != nil {
				return err
			}
			return each(root)
		},
	})
}

// noneIsBetter returns false: all pods have the same answer.
func noneIsBetter[T any](_, _ T) bool { return false }
