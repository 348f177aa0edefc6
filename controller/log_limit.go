package controller

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/bellerophon-io/bellerophon/controller/internal/loglimit"
	"k8s.io/apimachinery/pkg/types"
)

// logSubject is what a record is about: an object of a controller, or neither.
type logSubject struct {
	controller string
	object     types.NamespacedName
}

// logLimits bound the records of a manager. Each failing object backs off, but without a common bound a thousand
// objects that fail write a thousand times as much as one.
type logLimits struct {
	log         *slog.Logger
	failures    *loglimit.Limit[string, logSubject] // by message
	reconcilers *loglimit.Limit[logSubject, string] // records of Logger, by object; nil for no bound
}

// newLogLimits creates the limits of a manager.
func newLogLimits(m *Manager) (made logLimits, err error) {
	made.log = m.log
	made.failures, err = loglimit.New[string, logSubject](loglimit.DefaultRate, m.metrics.dropped, func(left map[string]int) {
		for _, message := range slices.Sorted(maps.Keys(left)) {
			m.log.Warn("records of a message were left out", "message", message, "dropped", left[message])
		}
	})
	if err == nil && m.options.LogRate > 0 {
		made.reconcilers, err = loglimit.New[logSubject, string](m.options.LogRate, m.metrics.dropped, made.reportReconcilers)
	}
	return made, err
}

// start starts the reports of what is left out, until ctx ends. Attempts may end late, so ctx ends after the last record.
func (l logLimits) start(ctx context.Context, start func(name string, run func(context.Context) error)) {
	start("log", func(context.Context) error { return l.failures.Run(ctx) })
	if l.reconcilers != nil {
		start("log of reconcilers", func(context.Context) error { return l.reconcilers.Run(ctx) })
	}
}

// reportReconcilers writes one record for each controller, however many objects it has, and names the object with
// the most records that were left out.
func (l logLimits) reportReconcilers(left map[logSubject]int) {
	type summary struct {
		objects, dropped, most int
		worst                  types.NamespacedName
	}
	summaries := map[string]summary{}
	for about, dropped := range left {
		sum := summaries[about.controller]
		sum.objects++
		sum.dropped += dropped
		if dropped > sum.most {
			sum.most, sum.worst = dropped, about.object
		}
		summaries[about.controller] = sum
	}
	for _, name := range slices.Sorted(maps.Keys(summaries)) {
		sum := summaries[name]
		l.log.Warn("records of a reconciler were left out", "controller", name, "dropped", sum.dropped, "objects", sum.objects,
			"namespace", sum.worst.Namespace, "name", sum.worst.Name)
	}
}

// boundedLog writes records about failures, as far as the limit admits them.
type boundedLog struct {
	limits     logLimits
	about      logSubject
	attributes []any // of each record
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
	ctx, log := context.Background(), b.limits.log
	if log.Enabled(ctx, level) && b.limits.failures.Admits(message, b.about) { // What the level hides is not left out.
		log.Log(ctx, level, message, slices.Concat(b.attributes, attributes)...)
	}
}

// boundedHandler passes the records of a reconciler to a handler, as far as the limit admits them. Programs turn the
// level Debug on to see everything, so these records have no bound.
type boundedHandler struct {
	slog.Handler
	limit *loglimit.Limit[logSubject, string]
	about logSubject
}

// Handle implements slog.Handler.
func (b boundedHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelInfo && !b.limit.Admits(b.about, record.Message) {
		return nil
	}
	return b.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (b boundedHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	b.Handler = b.Handler.WithAttrs(attributes)
	return b
}

// WithGroup implements slog.Handler.
func (b boundedHandler) WithGroup(name string) slog.Handler {
	b.Handler = b.Handler.WithGroup(name)
	return b
}
