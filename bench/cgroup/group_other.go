//go:build !linux

package cgroup

import (
	"errors"
	"os/exec"
)

// Group is a control group.
type Group struct{}

// New returns an error.
func New(limits Limits) (*Group, error) {
	if limits == (Limits{}) {
		return nil, errNone
	}
	return nil, errors.New("make a control group: this needs Linux")
}

// Start does nothing: there is no group.
func (*Group) Start(*exec.Cmd) error { return nil }

// Killed returns false: there is no group.
func (*Group) Killed() (bool, error) { return false, nil }

// Close does nothing: there is no group.
func (*Group) Close() error { return nil }
