// Command bellerophon-operator is the operator of the command bellerophon and nothing else,
// for an image: it starts sooner and takes less memory without what tries it out.
package main

import (
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/command"
	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{
		Use:   "bellerophon-operator",
		Short: "A Kubernetes operator on a reactive event stream",
		Long: `Bellerophon keeps BellerophonSimple objects in the state that they ask for: for each a
StatefulSet, a headless Service and a ConfigMap.`,
	}
	root.AddCommand(command.NewOperator(), command.NewVersion())
	os.Exit(command.Run(root))
}
