// Command bench compares operators: see `go run ./bench help`, and bench/contract.md for
// what they do.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bench/report"
	"github.com/spf13/cobra"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "bench",
		Short:         "Compare operators on real API servers",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newRun())
	root.AddCommand(report.Commands()...)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, screen.New(os.Stderr).Paint(screen.Red, "error:"), err)
		return 1
	}
	return 0
}
