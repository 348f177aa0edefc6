//go:build race

package controller_test

// defaultSchedules is less than without the race detector, with which a schedule costs
// four times as much.
const defaultSchedules = 20_000
