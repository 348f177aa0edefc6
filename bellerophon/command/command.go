// Package command holds what the programs bellerophon and bellerophon-operator share: the commands
// that both have, and the function that runs a program.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/spf13/cobra"
)

// exitCoder is an error with an exit code of its own.
type exitCoder interface{ ExitCode() int }

// Run runs a program until it finishes, is interrupted or is terminated, and returns its exit code.
// It prints an error as one line on stderr. The code is 1 after an error, or what an ExitCode method of the error returns.
func Run(root *cobra.Command) int {
	root.SilenceUsage, root.SilenceErrors = true, true
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root.ExecuteContext(ctx); err != nil {
		stderr := screen.New(os.Stderr)
		fmt.Fprintln(os.Stderr, stderr.Paint(screen.Red, "error:"), err)
		if coded := exitCoder(nil); errors.As(err, &coded) {
			return coded.ExitCode()
		}
		return 1
	}
	return 0
}
