package main

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"k8s.io/klog/v2"
)

// levels are the log levels that flags take.
var levels = []string{"debug", "info", "warn", "error"}

func parseLevel(name string) (slog.Level, error) {
	var level slog.Level
	if !slices.Contains(levels, name) {
		return level, fmt.Errorf("--log-level is %q; allowed are %s", name, strings.Join(levels, ", "))
	}
	return level, level.UnmarshalText([]byte(name))
}

// newLog makes the log of a command on standard error. The log of client-go goes there
// too, from errors up: what it warns of, sources report in their own words.
func newLog(level, format string) (*slog.Logger, error) {
	least, err := parseLevel(level)
	if err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: least}
	var handler slog.Handler
	switch format {
	case "text":
		handler = slog.NewTextHandler(os.Stderr, options)
	case "json":
		handler = slog.NewJSONHandler(os.Stderr, options)
	default:
		return nil, fmt.Errorf("--log-format is %q; allowed are text and json", format)
	}
	log := slog.New(handler)
	klog.SetSlogLogger(log)
	return log, nil
}
