package program

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/backup"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
	"github.com/spf13/cobra"
)

// connection is how a command reaches a cluster.
type connection struct {
	host    string // host:port of a member or of a Service of them
	tls     server.Files
	timeout time.Duration
}

func (c *connection) addTo(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&c.host, "host", "127.0.0.1:7070", "host:port of a member, or of a Service in front of them")
	flags.DurationVar(&c.timeout, "timeout", 10*time.Minute, "end after this time: 1s to 24h")
	addTLS(flags, &c.tls)
}

// use calls a function with a client of the cluster, and prints the file that it returns.
func (c *connection) use(ctx context.Context, do func(context.Context, *client.Client) (file string, err error)) error {
	if c.timeout < time.Second || c.timeout > 24*time.Hour {
		return fmt.Errorf("--timeout is %v; allowed is 1s to 24h", c.timeout)
	}
	secure, err := c.tls.Client()
	if err != nil {
		return err
	}
	over := client.New(secure, 10*time.Second)
	defer over.Close()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	file, err := do(ctx, over)
	if err == nil {
		fmt.Println(file)
	}
	return err
}

func newBackup() *cobra.Command {
	var to connection
	var folder backup.Folder
	keep := 7
	command := &cobra.Command{
		Use:   "backup",
		Short: "Write a backup of a cluster to a folder, and remove the oldest ones",
		Long: `Writes all keys of one moment to a file of the folder, while the cluster goes on. The file is
verified and on the disk before an older backup is removed.`,
		Example: `  bellerophon server backup --host example.default.svc:7070 --folder /backups --name example`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return to.use(command.Context(), func(ctx context.Context, over *client.Client) (string, error) {
				return folder.Take(ctx, over, to.host, keep, time.Now())
			})
		},
	}
	to.addTo(command)
	flags := command.Flags()
	flags.StringVar(&folder.Dir, "folder", "/backups", "the folder of the backups, which exists")
	flags.StringVar(&folder.Name, "name", "bellerophon", "the cluster's name, with which the files begin")
	flags.IntVar(&keep, "keep", keep, "how many backups stay: 1 and above")
	return command
}

func newRestore() *cobra.Command {
	var to connection
	var folder backup.Folder
	var file string
	command := &cobra.Command{
		Use:   "restore",
		Short: "Restore a backup into a new cluster",
		Long: `Verifies a backup and makes its keys the keys of a cluster. The cluster must have no keys, so
that a restore never replaces any.`,
		Example: `  bellerophon server restore --host example.default.svc:7070 --folder /backups --name example`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return to.use(command.Context(), func(ctx context.Context, over *client.Client) (string, error) {
				return folder.Restore(ctx, over, to.host, file)
			})
		},
	}
	to.addTo(command)
	flags := command.Flags()
	flags.StringVar(&folder.Dir, "folder", "/backups", "the folder of the backups")
	flags.StringVar(&folder.Name, "name", "bellerophon", "the name with which the files begin")
	flags.StringVar(&file, "file", "", "the backup, in the folder or with its path; default the newest one")
	return command
}
