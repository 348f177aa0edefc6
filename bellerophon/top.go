package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/top"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/spf13/cobra"
)

func newTop() *cobra.Command {
	var of asked
	var follows bool
	command := &cobra.Command{
		Use:   "top",
		Short: "Show what the controllers of a running operator do",
		Long: `Shows the controllers of an operator with their queues, and how often they reconcile, write and fail
in a second. It also shows what the next level of sync waits for. Below are fights and hot loops, keys
that back off, the slowest keys, and the stages of the pipeline. Each list has its first 10 keys, and
says how many it leaves out.

On a terminal the table is live until Ctrl-C, with rates over the last 5 s. A narrow terminal has fewer
columns. On a pipe the operator is asked twice within a second, and the table is printed once. With
--follow it is printed whenever the state has changed, and the first table has no rates.

If the operator ends, top says so, and asks again for ten minutes. Of several pods, the one that leads is
asked. The user of the token must be allowed to get /debug/manager: see docs/permissions.md.`,
		Example: `  bellerophon top --server http://127.0.0.1:8080
  bellerophon top --operator-namespace bellerophon --token-file token
  bellerophon top --output json | jq '.controllers[] | {name, queued, rates}'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			isJSON, err := isJSON(of.output)
			if err != nil {
				return err
			}
			if !command.Flags().Changed("follow") {
				follows = screen.New(os.Stdout).IsLive() && !isJSON
			}
			if follows {
				return followTop(command.Context(), &of, isJSON)
			}
			return printTop(command.Context(), &of, isJSON)
		},
	}
	of.addFlags(command)
	command.Flags().BoolVarP(&follows, "follow", "f", false, "go on until Ctrl-C; default on a terminal")
	return command
}

// printTop prints a table of two states once.
func printTop(ctx context.Context, of *asked, isJSON bool) error {
	question, err := asking(of, top.Question(false), top.Leads)
	if err != nil {
		return err
	}
	stdout := screen.New(os.Stdout)
	table := top.NewTable(stdout)
	if err := question(ctx, table.Add); err != nil {
		return err
	}
	return printTable(stdout, table, isJSON, "")
}

func followTop(ctx context.Context, of *asked, isJSON bool) error {
	stdout := screen.New(os.Stdout)
	table := top.NewTable(stdout)
	return follow(ctx, of, top.Question(true), top.Leads, view[introspection.State]{
		add:   table.Add,
		lines: table.Lines,
		each: func(state introspection.State) error {
			if err := table.Add(state); err != nil {
				return err
			}
			return printTable(stdout, table, isJSON, "\n")
		},
	})
}

// printTable prints a table, and an end behind it that JSON has not.
func printTable(stdout *screen.Screen, table *top.Table, isJSON bool, end string) error {
	if isJSON {
		return json.NewEncoder(stdout).Encode(table.Shown())
	}
	stdout.Println(strings.Join(table.Lines(stdout.Width()), "\n") + end)
	return nil
}
