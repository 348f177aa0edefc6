package controller_test

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"pgregory.net/rapid"
)

var schedules = flag.Int("schedules", defaultSchedules, "number of random schedules that check the pipeline against its model")

// checkSchedule runs a schedule in a synctest bubble. The end of the bubble checks that every
// goroutine has ended.
func checkSchedule(t *testing.T, text string, window time.Duration) (err error) {
	synctest.Test(t, func(t *testing.T) {
		l, failed := newLived(t, window)
		if err = failed; err != nil {
			return
		}
		defer l.end()
		err = l.live(text)
	})
	if err != nil {
		return fmt.Errorf("schedule %q, window %v: %w", text, window, err)
	}
	return nil
}

// live plays a schedule to its end and returns the first promise that was broken.
func (l *lived) live(text string) error {
	for _, source := range l.world.sources[:2] { // The third one lists when a step says so.
		source.list()
	}
	cut := l.play(text)
	if cut {
		l.end()
		l.openGates()
	} else {
		l.conclude()
	}
	if err := l.group.Wait(); err != nil {
		return err
	}
	l.checkEnd(cut)
	return l.world.wrong
}

// drawn draws a random schedule, short or long. The generator prefers the steps that come first.
// These are of few things, so that much happens to each.
func drawn(rt *rapid.T) string {
	const likelyFirst = "a,Ab+~/.e_B-=#*;[E1&!^2<>ix@(I)3?t%$pcCdDfFgGhHjJkKlL"
	least := rapid.SampledFrom([]int{0, 10, 20}).Draw(rt, "at least")
	letters := rapid.SampledFrom(strings.Split(likelyFirst, ""))
	text := strings.Join(rapid.SliceOfN(letters, least, 60).Draw(rt, "schedule"), "")
	if rapid.IntRange(0, 9).Draw(rt, "end") == 9 {
		text += "X"
	}
	return text
}

// withChecks sets the number of checks that rapid makes, until the test ends.
func withChecks(t *testing.T, checks int) {
	t.Helper()
	set := func(checks string) {
		if err := flag.Set("rapid.checks", checks); err != nil {
			t.Fatal(err)
		}
	}
	before := flag.Lookup("rapid.checks").Value.String()
	set(strconv.Itoa(max(1, checks)))
	t.Cleanup(func() { set(before) })
}

func TestWhateverHappensThePipelineEndsWhereTheClusterIs(t *testing.T) {
	windows := []time.Duration{0, operators.DefaultWindow}
	withChecks(t, *schedules/len(windows))
	for _, window := range windows {
		t.Run(fmt.Sprintf("with a window of %v", window), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				if err := checkSchedule(t, drawn(rt), window); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

func FuzzThePipelineEndsWhereTheClusterIs(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		var known strings.Builder
		for _, char := range []byte(text[:min(len(text), 200)]) {
			if strings.IndexByte(modelSteps, char) < 0 {
				char = modelSteps[int(char)%len(modelSteps)]
			}
			known.WriteByte(char)
		}
		for _, window := range []time.Duration{0, operators.DefaultWindow} {
			if err := checkSchedule(t, known.String(), window); err != nil {
				t.Fatal(err)
			}
		}
	})
}
