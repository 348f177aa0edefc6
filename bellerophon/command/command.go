// Package command has what the programs share: the commands that two of them have, and how
// all are run.
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

// Run runs a program until it is done, interrupted or terminated, and returns its exit code.
// What went wrong is one line on stderr.
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
