package cgroup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"

	"github.com/containerd/cgroups/v3"
)

// period is the time in microseconds in which a group may use its share of CPU. It is the kernel's default.
const period = 100_000

// quota returns the time in microseconds that the limit grants in each period.
func (l Limits) quota() int64 { return l.MilliCPU * period / 1000 }

// Group is a control group.
type Group struct {
	limits Limits
	group  interface {
		// start starts a command in the group, from a locked thread.
		start(command *exec.Cmd) error
		// kills returns how many processes of the group the kernel killed for memory.
		kills() (uint64, error)
		// remove removes the group.
		remove() error
	}
}

// New makes a group with the given limits.
func New(limits Limits) (*Group, error) {
	if limits == (Limits{}) {
		return nil, errNone
	}
	name := "bellerophon-" + rand.Text()
	g := &Group{limits: limits}
	var err error
	switch cgroups.Mode() {
	case cgroups.Unified:
		g.group, err = newUnified(name, limits)
	case cgroups.Legacy, cgroups.Hybrid: // Hybrid machines have the controllers in version 1.
		g.group, err = newLegacy(name, limits)
	default:
		err = errors.New("/sys/fs/cgroup is not mounted")
	}
	if err != nil {
		return nil, fmt.Errorf("make a control group with %v: %w", limits, err)
	}
	return g, nil
}

// Start starts a command in the group. The caller has locked its goroutine to its thread.
func (g *Group) Start(command *exec.Cmd) error {
	if err := g.group.start(command); err != nil {
		return fmt.Errorf("start %s in a control group with %v: %w", command.Path, g.limits, err)
	}
	return nil
}

// Killed reports whether the kernel killed a process of the group because the group needed more memory.
func (g *Group) Killed() (bool, error) {
	if g.limits.Memory == 0 {
		return false, nil
	}
	kills, err := g.group.kills()
	if err != nil {
		return false, fmt.Errorf("read the events of a control group with %v: %w", g.limits, err)
	}
	return kills > 0, nil
}

// Close removes the group. All its processes have to have ended.
func (g *Group) Close() error {
	if err := g.group.remove(); err != nil {
		return fmt.Errorf("remove a control group with %v: %w", g.limits, err)
	}
	return nil
}
