//go:build !race

package operators_test

const keysThatComeAndGo = 1_000_000
