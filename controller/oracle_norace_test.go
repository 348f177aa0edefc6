//go:build !race

package controller_test

const defaultOracle = 20_000
