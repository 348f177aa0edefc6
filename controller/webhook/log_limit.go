package webhook

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/controller/internal/loglimit"
	"github.com/prometheus/client_golang/prometheus"
)

// loggedError bounds the bytes of an error in a record. Errors repeat what was sent, which may have megabytes.
const loggedError = 2048

// failureLog writes records about requests that failed, as far as the limit admits them. Any client that reaches the
// server can make requests fail.
type failureLog struct {
	log   *slog.Logger
	limit *loglimit.Limit[failures, string] // by path and message; the subjects are errors
}

// failures are the records with one message about one path.
type failures struct{ path, message string }

// newFailureLog creates the log of a server.
func newFailureLog(log *slog.Logger, dropped prometheus.Counter) (made failureLog, err error) {
	made.log = log
	made.limit, err = loglimit.New[failures, string](loglimit.DefaultRate, dropped, func(left map[failures]int) {
		for _, of := range slices.SortedFunc(maps.Keys(left), func(one, other failures) int {
			return cmp.Or(strings.Compare(one.path, other.path), strings.Compare(one.message, other.message))
		}) {
			log.Warn("records about a webhook were left out", "path", of.path, "message", of.message, "dropped", left[of])
		}
	})
	return made, err
}

// about returns the log of a request that ended with an error, or with none.
func (f failureLog) about(path string, err error) boundedLog {
	return boundedLog{f, path, shortened(err)}
}

// boundedLog is the log of one request.
type boundedLog struct {
	failureLog
	path, failure string
}

// Warn writes a record of level Warn.
func (b boundedLog) Warn(message string, attributes ...any) {
	b.write(slog.LevelWarn, message, attributes)
}

// Error writes a record of level Error.
func (b boundedLog) Error(message string, attributes ...any) {
	b.write(slog.LevelError, message, attributes)
}

func (b boundedLog) write(level slog.Level, message string, attributes []any) {
	ctx := context.Background()
	if b.log.Enabled(ctx, level) && b.limit.Admits(failures{b.path, message}, b.failure) {
		b.log.Log(ctx, level, message, attributes...)
	}
}

// shortened returns the text of an error, without its end if it is long.
func shortened(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if len(text) <= loggedError {
		return text
	}
	return fmt.Sprintf("%s … (%d bytes)", strings.ToValidUTF8(text[:loggedError], ""), len(text))
}
