// Package program has the command that runs a member. It is apart from the other commands, so that the operator does not
// link the store.
package program

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/logging"
	"github.com/bellerophon-io/bellerophon/bellerophon/server"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/member"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/settings"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

// NewCommand creates the command that runs one member of the Bellerophon software.
func NewCommand() *cobra.Command {
	var level, format, quota string
	var options server.Options
	command := &cobra.Command{
		Use:   "server",
		Short: "Run a member of the replicated key-value store",
		Long: `Runs one member of a replicated key-value store until it gets an interrupt or SIGTERM.
Any member answers any request; reads have every change that was acknowledged before.

With --peers, the first members form a cluster by themselves. Without it, the member waits:
the operator makes it a cluster, or lets it join one. docs/server.md has the requests.`,
		Example: `  bellerophon server --data /tmp/one --peers 127.0.0.1:7070 --listen 127.0.0.1:7070
  curl -X PUT --data-binary pegasus localhost:7070/v1/keys/horse
  curl localhost:7070/v1/keys/horse`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			least, err := logging.Level(level)
			if err != nil {
				return err
			}
			log, err := logging.New(os.Stderr, least, format)
			if err != nil {
				return err
			}
			allowed, err := resource.ParseQuantity(quota)
			if err != nil || allowed.Value() < 1 {
				return fmt.Errorf("--quota is %q; allowed are quantities from 1, such as 256Mi", quota)
			}
			if options.Name == "" {
				if options.Name, err = os.Hostname(); err != nil {
					return fmt.Errorf("reading the host's name: %w; give --name", err)
				}
			}
			options.Quota, options.Log = allowed.Value(), log
			err = server.Run(command.Context(), options)
			if errors.Is(err, member.ErrDamaged) {
				return damagedError{err}
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Name, "name", "", "the member's name; default the host's name, which is the pod's")
	flags.StringVar(&options.Listen, "listen", ":7070", "where to serve clients and members")
	flags.StringVar(&options.Address, "address", "", "host:port at which other members reach this one; default the address of --listen")
	flags.StringVar(&options.Dir, "data", "/data", "the folder of the volume")
	flags.StringSliceVar(&options.Peers, "peers", nil, "the addresses of all first members, separated by commas, the same list for each; default none")
	addTLS(flags, &options.TLS)
	flags.DurationVar(&options.Election, "election-timeout", time.Second, "how long members wait for a silent leader before they elect another: 50ms to 1m")
	flags.StringVar(&quota, "quota", "256Mi", "how many bytes the keys and values may have together")
	flags.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&format, "log-format", "text", "text or json")
	for _, name := range settings.Names {
		if value := os.Getenv(settings.Variable(name)); value != "" {
			if err := flags.Set(name, value); err != nil {
				command.RunE = func(*cobra.Command, []string) error {
					return fmt.Errorf("%s is %q: %w", settings.Variable(name), value, err)
				}
			}
		}
	}
	_ = command.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(logging.Levels, cobra.ShellCompDirectiveNoFileComp))
	_ = command.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions(logging.Formats, cobra.ShellCompDirectiveNoFileComp))
	command.AddCommand(newBackup(), newRestore())
	return command
}

// damagedError is an error whose exit code says to the operator that the volume is damaged.
type damagedError struct{ error }

func (damagedError) ExitCode() int { return client.ExitDamaged }

// addTLS adds the flags of a certificate.
func addTLS(flags *pflag.FlagSet, files *server.Files) {
	flags.StringVar(&files.Certificate, "tls-certificate", "", "file of the certificate; it is read again when it changes")
	flags.StringVar(&files.Key, "tls-key", "", "file of the key of --tls-certificate")
	flags.StringVar(&files.Authorities, "tls-authorities", "", "file of the authorities that signed the certificates of members and clients")
}
