package localcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// cgroupMount is where Linux has its control groups.
const cgroupMount = "/sys/fs/cgroup"

// cgroupOf returns the name of the control group in which a cluster's Pods run, by the directory of
// the cluster.
func cgroupOf(directory string) string { return "bellerophon-" + filepath.Base(directory) }

// makeCgroups creates a control group below the root of each hierarchy.
func makeCgroups(name string) error {
	for _, root := range cgroupRoots() {
		group := filepath.Join(root, name)
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("create a control group: %w", err)
		}
		// In version 1, a new group has no processors and no memory.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			content, err := os.ReadFile(filepath.Join(root, file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(group, file), content, 0o600)
			}
			if err != nil {
				return fmt.Errorf("set up a control group: %w", err)
			}
		}
	}
	return nil
}

// cgroupRoots returns the root of version 2, or the roots of all hierarchies of version 1.
func cgroupRoots() []string {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		return []string{cgroupMount}
	}
	roots, err := filepath.Glob(filepath.Join(cgroupMount, "*"))
	if err != nil {
		panic(err) // The pattern is constant.
	}
	return slices.DeleteFunc(roots, func(root string) bool {
		_, err := os.Stat(filepath.Join(root, "cgroup.procs"))
		return err != nil || filepath.Base(root) == "unified"
	})
}

// removeCgroups removes a control group, and the groups that kubelet and runc made below it. They
// have no processes any more.
func removeCgroups(name string) error {
	var err error
	for _, pattern := range []string{filepath.Join(cgroupMount, name), filepath.Join(cgroupMount, "*", name)} {
		roots, globErr := filepath.Glob(pattern)
		err = errors.Join(err, globErr)
		for _, root := range roots {
			err = errors.Join(err, removeCgroup(root))
		}
	}
	return err
}

func removeCgroup(root string) error {
	var groups []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list control groups: %w", err)
	}
	for _, group := range slices.Backward(groups) { // The kernel removes empty groups, files and all.
		if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a control group: %w", err)
		}
	}
	return nil
}
