//go:build race

package operators_test

// With the race detector, a key costs ten times as much.
const keysThatComeAndGo = 100_000
