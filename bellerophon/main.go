// Command bellerophon runs a Kubernetes operator, and everything that is needed to try it out. See
// `bellerophon help`.
package main

import (
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/command"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/program"
	"github.com/spf13/cobra"
)

func main() { os.Exit(run()) }

func run() int { return command.Run(newRoot()) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "bellerophon",
		Short: "A Kubernetes operator on a reactive event stream",
		Long: `Bellerophon reconciles BellerophonSimple objects. For each object it keeps a StatefulSet,
a headless Service and a ConfigMap in the desired state.

  bellerophon up         starts a local cluster, the operator and samples
  bellerophon operator   runs the operator on your own cluster
  bellerophon why        asks a running operator why it reconciled an object
  bellerophon top        shows what the controllers of a running operator do
  bellerophon tree       shows what an object owns, and what is ready
  bellerophon page       shows the page of a running operator in a browser
  bellerophon replay     replays what an operator recorded
  bellerophon shadow     runs beside an operator that records, and compares
  bellerophon new        writes a project with a first controller
  bellerophon migrate    rewrites objects in the version that their definition stores
  bellerophon uninstall  takes the operator out of a cluster
  bellerophon dev        runs a project with a devfile in a cluster while you edit it
  bellerophon server     runs a member of the replicated key-value store
  bellerophon cluster    runs only the local cluster
  bellerophon image      makes the operator's container image`,
	}
	root.AddCommand(newUp(), command.NewOperator(), newWhy(), newTop(), newTree(), newPage(), newReplay(), newShadow(), newDev(), newNew(), newMigrate(), newUninstall(), program.NewCommand(), newCluster(), newImage(), command.NewVersion())
	return root
}
