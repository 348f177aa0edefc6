package main

import (
	"context"
	"io"
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/ask"
	"github.com/bellerophon-io/bellerophon/bellerophon/replay"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/spf13/cobra"
)

func newShadow() *cobra.Command {
	var options replay.Options
	var of asked
	command := &cobra.Command{
		Use:   "shadow [RECORDING]",
		Short: "Run this version beside an operator that records, and compare the decisions",
		Long: `Runs the reconcilers of this program on what another version of the operator records with
--record. They get the same events and the same answers; their writes are captured, and nothing is
sent. Prints each attempt that decides otherwise, one to two seconds after it ended. It ends with
Ctrl-C, or when the other operator ends. The exit code is 1 if there was a difference.

It gets the recording from the operator's metrics server, as "bellerophon why" asks it, or reads the
folder RECORDING. The user of the token must be allowed to get /debug/recording.

That is how an upgrade is tried: run the new version as a shadow, and upgrade when it is silent.`,
		Example: `  bellerophon shadow --server http://127.0.0.1:8080
  bellerophon shadow --operator-namespace bellerophon --token-file token
  bellerophon shadow /var/lib/bellerophon/recording --object stables/pegasus
  bellerophon shadow recording --output json | jq .lines`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) (err error) {
			if options.JSON, err = isJSON(of.output); err != nil {
				return err
			}
			follow := of.recording
			if len(args) > 0 {
				follow = func(ctx context.Context, each func(recording.Batch) error) error {
					return recording.Follow(ctx, args[0], each)
				}
			}
			return replay.Shadow(command.Context(), follow, options, screen.New(os.Stdout))
		},
	}
	of.addFlags(command)
	command.Flags().StringVar(&options.Object, "object", "", "compare only this object: NAME in namespace default, or NAMESPACE/NAME")
	return command
}

// recording follows the recording of the operator. It is a [replay.Follow].
func (a *asked) recording(ctx context.Context, each func(recording.Batch) error) (err error) {
	group := lifecycle.New(ctx)
	defer func() {
		group.Stop()
		if ended := group.Wait(); err == nil {
			err = ended
		}
	}()
	server, _, err := a.leader(ctx, group)
	if err != nil {
		return err
	}
	return ask.Read(ctx, server, "/debug/recording", func(from io.Reader) error { return recording.Receive(from, each) })
}
