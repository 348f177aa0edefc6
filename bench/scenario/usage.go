package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// ticksPerSecond is the unit in which /proc counts CPU time (USER_HZ), and so the resolution of
// differences. It is 100 on every platform that Go supports.
const ticksPerSecond = 100

// Usage is the CPU time and memory of processes and their descendants.
type Usage struct {
	CPU      time.Duration // user and system
	Resident int64         // bytes now
	Peak     int64         // bytes, the sum of each process's highest since it started
}

// UsageOf measures the given processes, each with its live descendants.
func UsageOf(pids ...int) (Usage, error) {
	system, err := procfs.NewDefaultFS()
	if err != nil {
		return Usage{}, fmt.Errorf("opening /proc: %w; the comparison needs Linux", err)
	}
	var sum Usage
	for _, pid := range pids {
		family, err := familyOf(pid)
		if err != nil {
			return Usage{}, err
		}
		for i, member := range family {
			usage, err := one(system, member)
			if err != nil {
				if i > 0 {
					continue // A descendant may end at any time; its CPU time then counts for its parent.
				}
				return Usage{}, err
			}
			sum.CPU += usage.CPU
			sum.Resident += usage.Resident
			sum.Peak += usage.Peak
		}
	}
	return sum, nil
}

func one(system procfs.FS, pid int) (Usage, error) {
	process, err := system.Proc(pid)
	if err != nil {
		return Usage{}, fmt.Errorf("measuring process %d: %w", pid, err)
	}
	stat, err := process.Stat()
	if err != nil {
		return Usage{}, fmt.Errorf("measuring process %d: %w", pid, err)
	}
	status, err := process.NewStatus()
	if err != nil {
		return Usage{}, fmt.Errorf("measuring process %d: %w", pid, err)
	}
	ticks := int64(stat.UTime) + int64(stat.STime) + int64(stat.CUTime) + int64(stat.CSTime)
	return Usage{
		CPU:      time.Duration(ticks) * time.Second / ticksPerSecond,
		Resident: int64(status.VmRSS), Peak: int64(status.VmHWM),
	}, nil
}

// familyOf returns the process and its descendants.
func familyOf(pid int) ([]int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(lists) == 0 {
		return nil, fmt.Errorf("measuring process %d: it does not exist: %w", pid, os.ErrNotExist)
	}
	family := []int{pid}
	for _, list := range lists {
		content, err := os.ReadFile(list)
		if err != nil {
			continue // A thread that has ended has no children.
		}
		for _, text := range strings.Fields(string(content)) {
			child, err := strconv.Atoi(text)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", list, err)
			}
			if descendants, err := familyOf(child); err == nil {
				family = append(family, descendants...)
			}
		}
	}
	return family, nil
}
