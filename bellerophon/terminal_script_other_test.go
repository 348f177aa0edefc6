//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

// watched is empty: the scripts that need a pseudo-terminal are skipped.
type (
	watched    struct{}
	watchedKey struct{}
)

func withTerminal(commands map[string]func(*testscript.TestScript, bool, []string)) map[string]func(*testscript.TestScript, bool, []string) {
	return commands
}
