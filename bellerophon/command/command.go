// Package command holds what the programs bellerophon and bellerophon-operator share: the commands
// that both have, and the function that runs a program.
package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/bellerophon-io/bellerophon/bellerophon/logging"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/spf13/cobra"
)

// exitCoder is an error with an exit code of its own.
type exitCoder interface{ ExitCode() int }

// Run runs a program until it finishes, is interrupted or is terminated, and returns its exit code.
// It prints an error as one line on stderr, which is a record with --log-format json. The code is 1 after an error, or what an ExitCode method of the error returns.
func Run(root *cobra.Command) int {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = versionText() // Cobra adds the flag --version. A template of its text would link package text/template: see footprint.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if executed, err := root.ExecuteContextC(ctx); err != nil {
		report(err, asksForJSON(executed, os.Args[1:]))
		if coded := exitCoder(nil); errors.As(err, &coded) {
			return coded.ExitCode()
		}
		return 1
	}
	return 0
}

// report prints the error that ended the program.
func report(err error, inJSON bool) {
	if inJSON {
		if log, failed := logging.New(os.Stderr, slog.LevelError, "json"); failed == nil {
			log.Error("the program has failed", "error", err)
			return
		}
	}
	stderr := screen.New(os.Stderr)
	fmt.Fprintln(os.Stderr, stderr.Paint(screen.Red, "error:"), cleanLines(err.Error()))
}

// cleanLines cleans each line of a text. An error may quote what a server or a file says.
func cleanLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = screen.Clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// asksForJSON reports whether a command has --log-format json. It looks at the arguments too, because the parser stops
// at the first argument that is wrong.
func asksForJSON(executed *cobra.Command, arguments []string) bool {
	format := executed.Flags().Lookup("log-format")
	if format == nil {
		return false
	}
	if format.Value.String() == "json" {
		return true
	}
	at := slices.Index(arguments, "--log-format")
	return slices.Contains(arguments, "--log-format=json") || at >= 0 && at+1 < len(arguments) && arguments[at+1] == "json"
}
