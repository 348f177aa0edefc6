// Command bellerophon is a Kubernetes operator, and what is needed to try it: see
// `bellerophon help`.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		stderr := screen.New(os.Stderr)
		fmt.Fprintln(os.Stderr, stderr.Paint(screen.Red, "error:"), err)
		return 1
	}
	return 0
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "bellerophon",
		Short: "A Kubernetes operator on a reactive event stream",
		Long: `Bellerophon keeps BellerophonSimple objects in the state that they ask for: for each a
StatefulSet, a headless Service and a ConfigMap.

  bellerophon up         tries it: a local cluster, the operator, and samples
  bellerophon operator   runs the operator on a cluster that you have
  bellerophon cluster    runs just the local cluster`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newUp(), newOperator(), newCluster(), newVersion())
	return root
}
