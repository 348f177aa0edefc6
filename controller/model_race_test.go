//go:build race

package controller_test

// With the race detector, a schedule costs four times as much. CI sets the full numbers by flags.
const (
	defaultSchedules = 20_000
	defaultOwnWrites = 100_000
)
