package main

import (
	"errors"
	"os"
	"strings"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/top"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/spf13/cobra"
)

func newTop() *cobra.Command {
	var of asked
	var follow bool
	command := &cobra.Command{
		Use:   "top",
		Short: "Show what the controllers of a running operator do",
		Long: `Shows the controllers of an operator with their queues, attempts and errors a second, and what the
next level of sync waits for. Below are fights and hot loops, keys that back off, the slowest keys,
and the stages of the pipeline.

On a terminal the table is live until Ctrl-C. On a pipe it is printed once, or again and again with
--follow. Rates need two states, so the first table has none. Of several pods, the one that leads is
asked. The user of the token must be allowed to get /debug/manager: see docs/permissions.md.`,
		Example: `  bellerophon top --server http://127.0.0.1:8080
  bellerophon top --operator-namespace bellerophon --token-file token
  bellerophon top --output json | jq '.controllers[] | {name, queued, failing}'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			stdout := screen.New(os.Stdout)
			table := top.NewTable(stdout)
			isLive := stdout.IsLive() && of.output == "text"
			if !command.Flags().Changed("follow") {
				follow = isLive
			}
			ctx := command.Context()
			err := answers(ctx, &of, top.Question(follow), top.Leads, func(state introspection.State) error {
				lines := table.Lines(state)
				if isLive && follow {
					stdout.Live(lines...)
					return nil
				}
				if follow {
					lines = append(lines, "")
				}
				stdout.Println(strings.Join(lines, "\n"))
				return nil
			})
			stdout.Keep()
			if err == nil && follow && ctx.Err() == nil {
				return errors.New("the operator has ended; run the command again when it is back")
			}
			return err
		},
	}
	of.addFlags(command)
	command.Flags().BoolVarP(&follow, "follow", "f", false, "go on until Ctrl-C; default on a terminal")
	return command
}
