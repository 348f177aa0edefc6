// Package logging sets up the logs of the command. They use log/slog, and include the logs of client-go and of the
// standard library.
package logging

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"k8s.io/klog/v2"
)

// Levels holds the names of the log levels.
var Levels = []string{"debug", "info", "warn", "error"}

// Formats holds the names of the log formats.
var Formats = []string{"text", "json"}

// Level returns the level of a name.
func Level(name string) (slog.Level, error) {
	var level slog.Level
	if !slices.Contains(Levels, name) {
		return level, fmt.Errorf("--log-level is %q; allowed are %s", name, strings.Join(Levels, ", "))
	}
	return level, level.UnmarshalText([]byte(name))
}

// New creates a logger on a writer. It redirects the logs of client-go and package log to the writer too, so that
// each line has the format.
func New(out io.Writer, level slog.Level, format string) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler
	switch format {
	case "text":
		handler = slog.NewTextHandler(out, options)
	case "json":
		handler = slog.NewJSONHandler(out, options)
	default:
		return nil, fmt.Errorf("--log-format is %q; allowed are %s", format, strings.Join(Formats, ", "))
	}
	klog.SetSlogLogger(slog.New(details{handler}))
	log := slog.New(handler)
	slog.SetLogLoggerLevel(slog.LevelDebug) // of package log, to which net/http reports servers that misbehave
	slog.SetDefault(log)
	return log, nil
}

// details logs every record at level debug, because client-go logs harmless events as errors, such
// as a watch that it will open again. Bellerophon itself reports the errors that matter. Records of a verbosity above 4
// are left out. There client-go quotes answers and logs whole bodies, which may have values of Secrets and tokens.
type details struct{ slog.Handler }

func (d details) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelDebug && d.Handler.Enabled(ctx, slog.LevelDebug)
}

func (d details) Handle(ctx context.Context, record slog.Record) error {
	record.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, record)
}

func (d details) WithAttrs(attrs []slog.Attr) slog.Handler {
	return details{d.Handler.WithAttrs(attrs)}
}
func (d details) WithGroup(name string) slog.Handler { return details{d.Handler.WithGroup(name)} }
