package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"
)

// limit bounds the whole comparison. No turn starts that would end after the limit if it took as
// long as the previous turn. A busy machine therefore makes fewer turns.
const limit = 10 * time.Minute

func main() {
	repeat := flag.Int("repeat", 5, "measure everything `n` times, alternately in forward and in reverse order: 1 to 100")
	only := flag.String("only", "", "measure only names that match this `regexp`, such as 'Paced.*impl=bellerophon$'")
	profile := flag.String("profile", "", "write profiles to this `folder`: cpu.pprof and allocs.pprof")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the comparison took longer than %v; free the machine, or lower -repeat", limit))
	defer cancel()
	err := profiled(*profile, func() error { return compare(ctx, *repeat, *only) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-core:", err)
		os.Exit(1) //nolint:gocritic // what is deferred ends with the process.
	}
}

// profiled calls a function and writes profiles of it to a folder, unless folder is empty.
func profiled(folder string, call func() error) error {
	if folder == "" {
		return call()
	}
	processor, err := os.Create(filepath.Join(folder, "cpu.pprof"))
	if err != nil {
		return fmt.Errorf("-profile: %w", err)
	}
	defer processor.Close()
	allocations, err := os.Create(filepath.Join(folder, "allocs.pprof"))
	if err != nil {
		return fmt.Errorf("-profile: %w", err)
	}
	defer allocations.Close()
	if err := pprof.StartCPUProfile(processor); err != nil {
		return fmt.Errorf("-profile: %w", err)
	}
	err = call()
	pprof.StopCPUProfile()
	return errors.Join(err, pprof.Lookup("allocs").WriteTo(allocations, 0))
}

func compare(ctx context.Context, repeat int, only string) error {
	if repeat < 1 || repeat > 100 {
		return fmt.Errorf("-repeat is %d; allowed is 1 to 100", repeat)
	}
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	began := time.Now()
	fmt.Printf("goos: %s\ngoarch: %s\npkg: github.com/bellerophon-io/bellerophon/bench/corebench\ncpu: %s\n", runtime.GOOS, runtime.GOARCH, processor())
	fmt.Printf("gomaxprocs: %d\nworkers: %d\ngo: %s\n", runtime.GOMAXPROCS(0), workers, runtime.Version())
	measurements, held := plan(), results{}
	turns, last := 0, time.Duration(0)
	for turns < repeat && time.Since(began)+last < limit {
		before := time.Now()
		if err := held.turn(ctx, measurements, turns, wanted); err != nil {
			return err
		}
		turns++
		last = time.Since(before)
	}
	if err := held.table(os.Stdout, measurements); err != nil {
		return err
	}
	fmt.Printf("\nMedians of %d runs each (Heap: 2 at most), %d requested, in %v. Net: without the generator's part. Delays: from the delivery of an event\n"+
		"to the start of the first reconcile that reads it from the cache.\n\n", turns, repeat, time.Since(began).Round(time.Second))
	for _, goal := range held.goals() {
		fmt.Println(goal)
	}
	return nil
}

// turn measures everything once.
func (r results) turn(ctx context.Context, measurements []measurement, turn int, wanted *regexp.Regexp) error {
	for _, measured := range measurements {
		sides := slices.Clone(measured.sides)
		if turn%2 == 1 {
			slices.Reverse(sides)
		}
		for _, side := range sides {
			if (measured.turns > 0 && turn >= measured.turns) || !wanted.MatchString(measured.name+"/impl="+side.name) {
				continue
			}
			o, err := run(ctx, measured.load, side)
			if err != nil {
				return fmt.Errorf("measure %s: %w", measured.name, err)
			}
			fmt.Println(r.add(measured, side.name, o))
		}
	}
	return nil
}

// processor returns the model name of the machine's processor, or "unknown" if /proc/cpuinfo has
// none.
func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
