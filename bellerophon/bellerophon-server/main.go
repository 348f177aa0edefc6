// Command bellerophon-server runs only a member of the Bellerophon software, for a container image.
package main

import (
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/command"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/program"
	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{
		Use:   "bellerophon-server",
		Short: "A member of the replicated key-value store Bellerophon",
	}
	root.AddCommand(program.NewCommand(), command.NewVersion())
	os.Exit(command.Run(root))
}
