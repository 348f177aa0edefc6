// Command bench compares operators on real API servers. `go run ./bench help` lists its
// subcommands; bench/contract.md specifies the behaviour of the operators.
package main

import (
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/command"
	"github.com/bellerophon-io/bellerophon/bench/beside"
	"github.com/bellerophon-io/bellerophon/bench/edge"
	"github.com/bellerophon-io/bellerophon/bench/report"
	"github.com/bellerophon-io/bellerophon/bench/simulation"
	"github.com/bellerophon-io/bellerophon/bench/store"
	"github.com/spf13/cobra"
)

func main() { os.Exit(command.Run(newRoot())) }

func newRoot() *cobra.Command {
	root := &cobra.Command{Use: "bench", Short: "Compare operators on real API servers"}
	root.AddCommand(newRun())
	root.AddCommand(report.Commands()...)
	root.AddCommand(simulation.Command())
	root.AddCommand(store.Command())
	root.AddCommand(edge.Command())
	root.AddCommand(beside.Command())
	return root
}
