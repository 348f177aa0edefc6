// Command bellerophon-operator runs only the operator of the command bellerophon, for a container
// image. Without the parts that try the operator out, it starts sooner and takes less memory.
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
		Long: `Bellerophon reconciles BellerophonSimple objects. For each object it keeps a StatefulSet,
a headless Service and a ConfigMap in the desired state.`,
	}
	root.AddCommand(command.NewOperator(), command.NewVersion())
	os.Exit(command.Run(root))
}
