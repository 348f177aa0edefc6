package member

import (
	"context"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// bridge returns a logger for raft that writes to a slog.Logger.
func bridge(to *slog.Logger) hclog.Logger {
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Debug})
	logger.RegisterSink(sink{to})
	return logger
}

type sink struct{ to *slog.Logger }

// levels maps raft's levels. Its Info has a line for each change of its state, which Bellerophon logs itself.
var levels = map[hclog.Level]slog.Level{
	hclog.Error: slog.LevelError, hclog.Warn: slog.LevelWarn, hclog.Info: slog.LevelDebug,
}

// Accept implements hclog.SinkAdapter.
func (s sink) Accept(_ string, level hclog.Level, message string, arguments ...any) {
	if to, is := levels[level]; is {
		s.to.Log(context.Background(), to, message, append(arguments, "from", "raft")...)
	}
}
