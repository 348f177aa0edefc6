package commandtest

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

func TestEachFlagOfEachCommandIsListedOnceWithItsType(t *testing.T) {
	root, below := &cobra.Command{Use: "horse"}, &cobra.Command{Use: "ride NAME", Aliases: []string{"go"}, Hidden: true}
	root.PersistentFlags().Bool("quiet", false, "")
	below.Flags().IntP("speed", "s", 0, "")
	root.AddCommand(below)
	want := []string{"horse\tcommand", "horse --quiet\tbool", "horse ride\tcommand, aliases go", "horse ride --speed\tint, -s"}
	if got := Names(root); !slices.Equal(got, want) {
		t.Errorf("it lists %q, want %q", got, want)
	}
}
