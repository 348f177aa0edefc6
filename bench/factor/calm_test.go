package main

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// at returns a time of a recording that starts at 0.
func at(after time.Duration) time.Time { return time.Unix(1, 0).Add(after) }

func TestAGapIsTheTimeInWhichNoAttemptIsPending(t *testing.T) {
	for name, test := range map[string]struct {
		spans []span
		want  []gap
	}{
		"no attempt": {nil, nil},
		"one attempt, and the time before it does not count": {
			[]span{{at(5 * ms), at(10 * ms), ms, true}},
			[]gap{{90 * ms, ms, true, false}},
		},
		"two attempts": {
			[]span{{at(0), at(10 * ms), ms, false}, {at(30 * ms), at(40 * ms), 2 * ms, true}},
			[]gap{{20 * ms, ms, false, true}, {60 * ms, 2 * ms, true, false}},
		},
		"attempts that overlap are one": {
			[]span{{at(0), at(20 * ms), ms, false}, {at(10 * ms), at(30 * ms), 2 * ms, true}, {at(50 * ms), at(60 * ms), 3 * ms, false}},
			[]gap{{20 * ms, 2 * ms, false, false}, {40 * ms, 3 * ms, true, false}},
		},
		"an attempt within another ends no earlier": {
			[]span{{at(0), at(40 * ms), 4 * ms, false}, {at(10 * ms), at(20 * ms), ms, true}, {at(50 * ms), at(100 * ms), ms, true}},
			[]gap{{10 * ms, 4 * ms, false, true}},
		},
		"attempts that touch leave no gap": {
			[]span{{at(0), at(20 * ms), ms, false}, {at(20 * ms), at(100 * ms), ms, false}},
			nil,
		},
		"attempts are sorted by their starts": {
			[]span{{at(50 * ms), at(60 * ms), 2 * ms, true}, {at(0), at(10 * ms), ms, false}},
			[]gap{{40 * ms, ms, false, true}, {40 * ms, 2 * ms, true, false}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := gapsOf(test.spans, at(100*ms))
			if len(got) != len(test.want) {
				t.Fatalf("gapsOf() = %v, want %v", got, test.want)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("gap %d is %v, want %v", i, got[i], test.want[i])
				}
			}
		})
	}
}

func TestARiseIsPrematureIfAnEventComesWithinOneMoreLoop(t *testing.T) {
	for name, test := range map[string]struct {
		gap  gap
		want calm // of factor 10
	}{
		"a gap that is too short":               {gap{999 * ms, 100 * ms, false, false}, calm{}},
		"a gap as long as the wait":             {gap{1000 * ms, 100 * ms, false, false}, calm{Rises: 1, Premature: 1, Own: 1, Soon: 1, OwnSoon: 1}},
		"one more loop":                         {gap{1100 * ms, 100 * ms, false, false}, calm{Rises: 1, Premature: 1, Own: 1, Soon: 1, OwnSoon: 1}},
		"more than one more loop":               {gap{1101 * ms, 100 * ms, false, false}, calm{Rises: 1, Later: 1, Soon: 1, OwnSoon: 1}},
		"a second more":                         {gap{2000 * ms, 100 * ms, false, false}, calm{Rises: 1, Later: 1, Soon: 1, OwnSoon: 1}},
		"more than a second":                    {gap{2001 * ms, 100 * ms, false, false}, calm{Rises: 1, Later: 1}},
		"a premature rise that the load ended":  {gap{1050 * ms, 100 * ms, false, true}, calm{Rises: 1, Premature: 1, Soon: 1}},
		"a loop faster than the floor":          {gap{99 * ms, ms, false, false}, calm{}},
		"a wait for ten times the floor":        {gap{111 * ms, ms, false, false}, calm{Rises: 1, Later: 1, Soon: 1, OwnSoon: 1}},
		"no event until the end":                {gap{2001 * ms, 100 * ms, true, false}, calm{Rises: 1, Later: 1}},
		"an end that is too early to tell":      {gap{2000 * ms, 100 * ms, true, false}, calm{}},
		"an end within one more slow loop":      {gap{22 * time.Second, 2 * time.Second, true, false}, calm{}},
		"an end after one more slow loop":       {gap{22001 * ms, 2 * time.Second, true, false}, calm{Rises: 1, Later: 1}},
		"an event within one more slow loop":    {gap{22 * time.Second, 2 * time.Second, false, true}, calm{Rises: 1, Premature: 1}},
		"an event long after one more slow one": {gap{23 * time.Second, 2 * time.Second, false, true}, calm{Rises: 1, Later: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got := calmOf([]gap{test.gap}, 10, floor)
			got.Factor, got.Median, got.P95 = 0, nil, nil
			if got != test.want {
				t.Errorf("calmOf(%v) = %+v, want %+v", test.gap, got, test.want)
			}
		})
	}
}

func TestLatenessIsTheWaitOfTheRises(t *testing.T) {
	var gaps []gap
	for i := range 20 {
		gaps = append(gaps, gap{length: time.Hour, loop: time.Duration(20+i) * ms}) // 20 to 39 ms
	}
	gaps = append(gaps, gap{length: ms, loop: time.Second}) // no rise
	got := calmOf(gaps, 2, floor)
	if got.Rises != 20 || *got.Median != 0.058 || *got.P95 != 0.076 {
		t.Errorf("found %d rises, median %v, p95 %v; want 20, 0.058 and 0.076", got.Rises, *got.Median, *got.P95)
	}
	if got := calmOf(nil, 2, floor); got.Median != nil || got.P95 != nil {
		t.Errorf("the lateness of no rise is %v and %v, want none", got.Median, got.P95)
	}
}

func TestRisesFallWithTheFactorAndEachIsPrematureOrLater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOf(rapid.Custom(func(t *rapid.T) gap {
			return gap{
				length: time.Duration(rapid.Int64Range(1, int64(20*time.Second)).Draw(t, "length")),
				loop:   time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "loop")),
				open:   rapid.Bool().Draw(t, "open"),
				load:   rapid.Bool().Draw(t, "load"),
			}
		})).Draw(t, "gaps")
		before := len(gaps)
		for _, found := range calms(gaps, floor) {
			if found.Rises > before {
				t.Fatalf("factor %v has %d rises, the one before %d", found.Factor, found.Rises, before)
			}
			before = found.Rises
			if found.Premature+found.Later != found.Rises {
				t.Fatalf("factor %v has %d premature and %d later rises of %d", found.Factor, found.Premature, found.Later, found.Rises)
			}
			if found.Own > found.Premature || found.OwnSoon > found.Soon || found.Soon > found.Rises {
				t.Fatalf("the parts are larger than the whole: %+v", found)
			}
			if (found.Rises == 0) != (found.Median == nil) || (found.Median != nil && *found.Median > *found.P95) {
				t.Fatalf("the lateness does not fit the rises: %+v", found)
			}
		}
	})
}
