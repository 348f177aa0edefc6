// Package canary is for tests which show that a process shows no secret value. Such a test gives the process
// random values, collects what the process shows, and searches it:
//
//	log, logger := canary.CaptureLogs(t)
//	shown, err := canary.Pages(ctx, addresses)
//	values := canary.New(password)
//	found := values.In(log.String())
package canary

import (
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"k8s.io/klog/v2"
)

// Log is a log that many goroutines write, and that tests read. The zero value is an empty log.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends text, which a handler of log/slog does once for each record.
func (l *Log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// String returns all that was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// verbosity is the highest one at which client-go does not log the bodies of requests.
const verbosity = 7

// CaptureLogs returns a log, and a logger of all levels that writes to it. Until the test ends, client-go writes
// to the log too. No goroutine may use client-go when CaptureLogs is called.
func CaptureLogs(t testing.TB) (*Log, *slog.Logger) {
	t.Helper()
	log := &Log{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.Level(-verbosity)}))
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	set := func(level int) {
		if err := flags.Set("v", fmt.Sprint(level)); err != nil {
			t.Errorf("canary: set the verbosity of klog to %d: %v", level, err)
		}
	}
	set(verbosity)
	klog.SetSlogLogger(logger)
	t.Cleanup(func() {
		klog.ClearLogger()
		set(0)
	})
	return log, logger
}
