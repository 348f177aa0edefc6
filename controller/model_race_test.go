//go:build race

package controller_test

// defaultSchedules is less than without the race detector, with which a schedule costs
// four times as much.
const defaultSchedules = 20_000

// ownWritePairs is how many own writes are made and read.
const ownWritePairs = 100_000
