//go:build !race

package controller_test

const defaultSchedules = 100_000

// ownWritePairs is how many own writes are made and read.
const ownWritePairs = 1_000_000
