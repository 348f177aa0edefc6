package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// mount is where the controllers are mounted. Package cgroups looks for version 2 there, too.
const mount = "/sys/fs/cgroup"

// legacy is a group of version 1, within the groups of this process. So it has their limits, too.
type legacy struct {
	group, own cgroup1.Cgroup
}

func newLegacy(name string, limits Limits) (*legacy, error) {
	var (
		resources  specs.LinuxResources
		subsystems []cgroup1.Subsystem
	)
	if limits.MilliCPU > 0 {
		quota, each := limits.quota(), uint64(period)
		resources.CPU = &specs.LinuxCPU{Quota: &quota, Period: &each}
		subsystems = append(subsystems, cgroup1.NewCpu(mount))
	}
	if limits.Memory > 0 {
		resources.Memory = &specs.LinuxMemory{Limit: &limits.Memory}
		if _, err := os.Stat(filepath.Join(mount, "memory", "memory.memsw.limit_in_bytes")); err == nil {
			resources.Memory.Swap = &limits.Memory // of memory and swap together
		}
		subsystems = append(subsystems, cgroup1.NewMemory(mount, cgroup1.IgnoreModules("memsw", "kmem", "kmem.tcp")))
	}
	options := []cgroup1.InitOpts{
		cgroup1.WithHierarchy(func() ([]cgroup1.Subsystem, error) { return subsystems, nil }),
		func(config *cgroup1.InitConfig) error {
			config.InitCheck = func(_ cgroup1.Subsystem, _ cgroup1.Path, err error) error { return err } // A limit is never skipped.
			return nil
		},
	}
	own, err := cgroup1.Load(cgroup1.NestedPath(""), options...)
	if err != nil {
		return nil, err
	}
	group, err := cgroup1.New(cgroup1.NestedPath(name), &resources, options...)
	if err != nil {
		// The failed call may have left a part of the group.
		if part, loadErr := cgroup1.Load(cgroup1.NestedPath(name), options...); loadErr == nil {
			err = errors.Join(err, part.Delete())
		}
		return nil, err
	}
	return &legacy{group: group, own: own}, nil
}

// start moves this thread into the group, because a child is in the groups of the thread that forks it.
// Afterwards it moves the thread back.
func (l *legacy) start(command *exec.Cmd) error {
	thread := cgroup1.Process{Pid: unix.Gettid()}
	err := l.group.AddTask(thread)
	if err == nil {
		err = command.Start()
	}
	return errors.Join(err, l.own.AddTask(thread))
}

func (l *legacy) kills() (uint64, error) {
	stat, err := l.group.Stat()
	if err != nil {
		return 0, err
	}
	return stat.MemoryOomControl.OomKill, nil
}

func (l *legacy) remove() error { return l.group.Delete() }
