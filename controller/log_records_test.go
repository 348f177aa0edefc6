package controller

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// logged is a record of a log, with its attributes in order.
type logged struct {
	time       time.Time
	level      slog.Level
	message    string
	attributes []slog.Attr
}

// of returns the value of an attribute, or the zero value.
func (l logged) of(key string) slog.Value {
	for _, attribute := range l.attributes {
		if attribute.Key == key {
			return attribute.Value.Resolve()
		}
	}
	return slog.Value{}
}

// logRecords is a slog.Handler that keeps the records of all levels. A group becomes an attribute, whose key no
// page has.
type logRecords struct {
	kept  *keptRecords
	given []slog.Attr
}

type keptRecords struct {
	mu  sync.Mutex
	all []logged
}

func newLogRecords() logRecords { return logRecords{kept: &keptRecords{}} }

func (l logRecords) Enabled(context.Context, slog.Level) bool { return true }

func (l logRecords) Handle(_ context.Context, record slog.Record) error {
	attributes := slices.Clone(l.given)
	record.Attrs(func(attribute slog.Attr) bool { attributes = append(attributes, attribute); return true })
	l.kept.mu.Lock()
	defer l.kept.mu.Unlock()
	l.kept.all = append(l.kept.all, logged{record.Time, record.Level, record.Message, attributes})
	return nil
}

func (l logRecords) WithAttrs(attributes []slog.Attr) slog.Handler {
	return logRecords{l.kept, append(slices.Clone(l.given), attributes...)}
}

func (l logRecords) WithGroup(name string) slog.Handler {
	return l.WithAttrs([]slog.Attr{slog.String("group "+name, "")})
}

// saying returns the records with a message so far.
func (l logRecords) saying(message string) (found []logged) {
	for _, record := range l.everything() {
		if record.message == message {
			found = append(found, record)
		}
	}
	return found
}

// everything returns the records so far.
func (l logRecords) everything() []logged {
	l.kept.mu.Lock()
	defer l.kept.mu.Unlock()
	return slices.Clone(l.kept.all)
}
