package main

import (
	"fmt"
	"os"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/tree"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/spf13/cobra"
)

func newTree() *cobra.Command {
	var of asked
	var namespace, search string
	var limit int
	command := &cobra.Command{
		Use:   "tree [RESOURCE/NAME]",
		Short: "Show what an object of a running operator owns, and what is ready",
		Long: `Shows an object and the objects that it owns, as the cache of a running operator has them, each with
its readiness, why it is not ready, and since when. The cache may keep a part of an object alone, so
that its readiness is unknown. Without an object, the objects that controllers reconcile are listed.

The user of the token must be allowed to get /debug/tree: see docs/permissions.md.`,
		Example: `  bellerophon tree sheroes/pegasus --server http://127.0.0.1:8080
  bellerophon tree heroes/bellerophon --namespace stables --operator-namespace bellerophon --token-file token
  bellerophon tree --search pegasus --namespace ""
  bellerophon tree sheroes/pegasus --output json | jq '.children[] | select(.ready != "True")'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			printer := tree.NewPrinter(screen.New(os.Stdout), time.Now())
			if len(args) == 0 {
				question := tree.RootsQuestion(namespace, search, limit)
				return answers(command.Context(), &of, question, func(_, _ introspection.Roots) bool { return false }, func(found introspection.Roots) error {
					printer.PrintRoots(found)
					return nil
				})
			}
			for _, flag := range []string{"search", "limit"} {
				if command.Flags().Changed(flag) {
					return fmt.Errorf("--%s chooses among objects; give it without RESOURCE/NAME", flag)
				}
			}
			return answers(command.Context(), &of, tree.Question(args[0], namespace), func(_, _ introspection.Node) bool { return false }, func(root introspection.Node) error {
				printer.Print(root)
				return nil
			})
		},
	}
	of.addFlags(command)
	flags := command.Flags()
	flags.StringVarP(&namespace, "namespace", "n", "default", "the namespace of the object")
	flags.StringVar(&search, "search", "", "without an object: a part of namespace/name")
	flags.IntVar(&limit, "limit", 200, "without an object: how many are listed, 1 to 1000")
	return command
}
