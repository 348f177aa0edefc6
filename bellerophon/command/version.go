package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// NewVersion creates the command that prints the same as the flag --version, which Cobra adds.
func NewVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(command *cobra.Command, _ []string) {
			fmt.Fprintf(command.OutOrStdout(), "%s version %s\n", command.Root().DisplayName(), versionText())
		},
	}
}

// versionText returns what the command version and the flag --version print after the program's name.
func versionText() string {
	return fmt.Sprintf("%s %s %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version returns the version of the program and, if it is known, the revision of its source.
func version() string {
	version, revision := "devel", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			version = info.Main.Version
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = " " + setting.Value
			}
		}
	}
	return version + revision
}
