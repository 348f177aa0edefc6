package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"

	"github.com/containerd/cgroups/v3/cgroup2"
	"golang.org/x/sys/unix"
)

// unified is a group of version 2. It is beside the group of this process and not within it, because a
// group with processes of its own cannot limit groups within it.
type unified struct {
	group  *cgroup2.Manager
	folder string
}

func newUnified(name string, limits Limits) (*unified, error) {
	own, err := cgroup2.PidGroupPath(os.Getpid())
	if err != nil {
		return nil, err
	}
	place := path.Join(path.Dir(own), name)
	u := &unified{folder: filepath.Join(mount, place)}
	var resources cgroup2.Resources
	if limits.MilliCPU > 0 {
		quota, each := limits.quota(), uint64(period)
		resources.CPU = &cgroup2.CPU{Max: cgroup2.NewCPUMax(&quota, &each)}
	}
	if limits.Memory > 0 {
		resources.Memory = &cgroup2.Memory{Max: &limits.Memory}
	}
	if u.group, err = cgroup2.NewManager(mount, place, &resources); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(u.folder, "memory.swap.max")); limits.Memory > 0 && err == nil {
		none := int64(0)
		if err := u.group.Update(&cgroup2.Resources{Memory: &cgroup2.Memory{Swap: &none}}); err != nil {
			return nil, errors.Join(err, u.group.Delete())
		}
	}
	return u, nil
}

// start lets the kernel fork the child into the group.
func (u *unified) start(command *exec.Cmd) error {
	folder, err := unix.Open(u.folder, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	command.SysProcAttr.UseCgroupFD, command.SysProcAttr.CgroupFD = true, folder
	return errors.Join(command.Start(), unix.Close(folder))
}

func (u *unified) kills() (uint64, error) {
	stat, err := u.group.StatFiltered(cgroup2.StatMemoryEvents)
	if err != nil {
		return 0, err
	}
	return stat.MemoryEvents.OomKill, nil
}

func (u *unified) remove() error { return u.group.Delete() }
