package store

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/spf13/cobra"
)

// Settings say what is measured.
type Settings struct {
	Clients int           `json:"clients"`
	Size    int           `json:"size"` // of a value, in bytes
	Keys    int           `json:"keys"`
	Phase   time.Duration `json:"phase"`
	Turns   int           `json:"turns"`
}

func (s Settings) validate() error {
	switch {
	case s.Clients < 1 || s.Clients > 1000:
		return fmt.Errorf("--clients is %d; allowed is 1 to 1000", s.Clients)
	case s.Size < 1 || s.Size > 1<<20:
		return fmt.Errorf("--size is %d; allowed is 1 to 1048576", s.Size)
	case s.Keys < 1 || s.Keys > 100000:
		return fmt.Errorf("--keys is %d; allowed is 1 to 100000", s.Keys)
	case s.Phase < time.Second || s.Phase > time.Hour:
		return fmt.Errorf("--phase is %v; allowed is 1s to 1h", s.Phase)
	case s.Turns < 1 || s.Turns > 100:
		return fmt.Errorf("--turns is %d; allowed is 1 to 100", s.Turns)
	}
	return nil
}

// Command returns the command that compares both stores.
func Command() *cobra.Command {
	var settings Settings
	var from, out string
	command := &cobra.Command{
		Use:   "store",
		Short: "Compare the key-value store of Bellerophon with etcd",
		Long: `Store runs three members of the key-value store of Bellerophon, and three of etcd, on this
machine. It measures writes and linearizable reads a second, and their latencies.

With --from, nothing is measured: the result of a file is shown.`,
		Example: `  go run ./bench store --turns 2 --phase 2s
  go run ./bench store --out bin/store.json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			var result Result
			if from != "" {
				content, err := os.ReadFile(from)
				if err == nil {
					err = json.Unmarshal(content, &result)
				}
				if err != nil {
					return fmt.Errorf("read a result from %s: %w", from, err)
				}
				return result.print(os.Stdout)
			}
			if err := settings.validate(); err != nil {
				return err
			}
			result, err := measure(command.Context(), settings, screen.New(os.Stderr))
			if err != nil {
				return err
			}
			if out != "" {
				content, err := json.MarshalIndent(result, "", " ")
				if err == nil {
					err = os.WriteFile(out, append(content, '\n'), 0o644)
				}
				if err != nil {
					return fmt.Errorf("write the result: %w", err)
				}
			}
			return result.print(os.Stdout)
		},
	}
	flags := command.Flags()
	flags.IntVar(&settings.Clients, "clients", 32, "clients that send one request after another: 1 to 1000")
	flags.IntVar(&settings.Size, "size", 256, "bytes of a value: 1 to 1048576")
	flags.IntVar(&settings.Keys, "keys", 1000, "different keys: 1 to 100000")
	flags.DurationVar(&settings.Phase, "phase", 5*time.Second, "how long writes and reads are measured, each: 1s to 1h")
	flags.IntVar(&settings.Turns, "turns", 8, "how often both stores are measured: 1 to 100")
	flags.StringVar(&from, "from", "", "show the result of this file, and measure nothing")
	flags.StringVar(&out, "out", "", "write the result to this file")
	return command
}
