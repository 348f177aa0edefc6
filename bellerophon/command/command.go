// Package command holds what the programs bellerophon and bellerophon-operator share: the commands
// that both have, and the function that runs a program.
package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/spf13/cobra"
)

// Run runs a program until it finishes, is interrupted or is terminated, and returns its exit code.
// It prints an error as one line on stderr.
func Run(root *cobra.Command) int {
	root.SilenceUsage, root.SilenceErrors = true, true
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root.ExecuteContext(ctx); err != nil {
		stderr := screen.New(os.Stderr)
		fmt.Fprintln(os.Stderr, stderr.Paint(screen.Red, "error:"), err)
		return 1
	}
	return 0
}
