package harness

import (
	"fmt"
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/affinity"
)

// The values of --cores.
const (
	sharedCores = "shared"
	ownCores    = "own"
)

// divideCores decides which processors contenders have, and which everything else has.
func (c *choice) divideCores() error {
	switch c.Cores {
	case sharedCores:
		return nil
	case ownCores:
	default:
		return fmt.Errorf("--cores is %q; allowed are %s and %s", c.Cores, sharedCores, ownCores)
	}
	allowed, err := affinity.Allowed()
	if err != nil {
		return fmt.Errorf("--cores is %s: %w", ownCores, err)
	}
	if len(allowed) < 2 {
		return fmt.Errorf("--cores is %s, but this process has only the processors %v; it needs two or more", ownCores, allowed)
	}
	c.own, c.rest = allowed[:1], allowed[1:]
	return nil
}

// leaveCores keeps this process off the processors of contenders, and with it the servers that it starts.
func (c *choice) leaveCores() (restore func() error, err error) {
	if len(c.own) == 0 {
		return func() error { return nil }, nil
	}
	return func() error { return affinity.Process(slices.Concat(c.own, c.rest)) }, affinity.Process(c.rest)
}
