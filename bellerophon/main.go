// Command bellerophon is a Kubernetes operator, and what is needed to try it: see
// `bellerophon help`.
package main

import (
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/command"
	"github.com/spf13/cobra"
)

func main() { os.Exit(run()) }

func run() int { return command.Run(newRoot()) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "bellerophon",
		Short: "A Kubernetes operator on a reactive event stream",
		Long: `Bellerophon keeps BellerophonSimple objects in the state that they ask for: for each a
StatefulSet, a headless Service and a ConfigMap.

  bellerophon up         tries it: a local cluster, the operator, and samples
  bellerophon operator   runs the operator on a cluster that you have
  bellerophon cluster    runs just the local cluster`,
	}
	root.AddCommand(newUp(), command.NewOperator(), newCluster(), command.NewVersion())
	return root
}
