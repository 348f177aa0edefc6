//go:build !linux

package affinity

import "errors"

var errLinux = errors.New("keep threads on processors: this needs Linux")

// Allowed returns an error.
func Allowed() ([]int, error) { return nil, errLinux }

// Thread returns an error.
func Thread([]int) (restore func() error, err error) { return nil, errLinux }

// Process returns an error.
func Process([]int) error { return errLinux }
