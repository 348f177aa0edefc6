//go:build !race

package controller_test

const (
	defaultSchedules = 100_000
	defaultOwnWrites = 1_000_000
)
