//go:build race

package controller_test

// With the race detector, a schedule costs several times as much.
const defaultOracle = 2_000
