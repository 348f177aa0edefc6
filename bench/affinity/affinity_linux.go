package affinity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Allowed returns the processors on which the calling thread may run, in ascending order.
func Allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("get the processors of a thread: %w", err)
	}
	var allowed []int
	for processor := range len(set) * 64 {
		if set.IsSet(processor) {
			allowed = append(allowed, processor)
		}
	}
	return allowed, nil
}

// Thread keeps the calling thread on the given processors until restore is called. The caller has to lock its
// goroutine to the thread for that time.
func Thread(processors []int) (restore func() error, err error) {
	before, err := Allowed()
	if err != nil {
		return nil, err
	}
	if err := set(0, processors); err != nil {
		return nil, err
	}
	return func() error { return set(0, before) }, nil
}

// Process keeps all threads of this process on the given processors, and the threads that they start.
func Process(processors []int) error {
	done := map[int]bool{}
	for {
		tasks, err := filepath.Glob("/proc/self/task/*")
		if err != nil || len(tasks) == 0 {
			return fmt.Errorf("list the threads of this process: %w", errors.Join(err, os.ErrNotExist))
		}
		found := false
		for _, task := range tasks {
			thread, err := strconv.Atoi(filepath.Base(task))
			if err != nil || done[thread] {
				continue
			}
			done[thread], found = true, true
			if err := set(thread, processors); err != nil && !errors.Is(err, unix.ESRCH) { // A thread may end at any time.
				return err
			}
		}
		if !found { // A thread that started meanwhile was started by one that was already kept.
			return nil
		}
	}
}

// set sets the processors of a thread; 0 is the calling one.
func set(thread int, processors []int) error {
	var set unix.CPUSet
	for _, processor := range processors {
		set.Set(processor)
	}
	if err := unix.SchedSetaffinity(thread, &set); err != nil {
		return fmt.Errorf("keep a thread on the processors %v: %w", processors, err)
	}
	return nil
}
