package operators_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// debounceTest is a schedule that goes through Debounce with a window of 20 ms, and the schedule
// that comes out.
type debounceTest struct{ in, out string }

func testDebounce(t *testing.T, window time.Duration, tests map[string]debounceTest) {
	t.Helper()
	testBurst(t, window, 1, tests)
}

func testBurst(t *testing.T, window time.Duration, burst int, tests map[string]debounceTest) {
	t.Helper()
	for name, test := range tests {
		bubble(t, name, func(t *testing.T) {
			flow := &operators.StageStats{}
			stream := operators.Debounce(scheduled(test.in), operators.DebounceOptions{Window: window, Burst: burst, Stats: flow})
			if got := logged(stream.Observe(t.Context()), written); got != test.out {
				t.Errorf("\nof   %s\ncame %s\nwant %s", test.in, got, test.out)
			}
			if waiting := flow.Waiting.Load(); waiting != 0 {
				t.Errorf("%d events wait at the end", waiting)
			}
		})
	}
}

func TestDebounceHoldsBackBusyKeysOnly(t *testing.T) {
	testDebounce(t, 20*time.Millisecond, map[string]debounceTest{
		"the first event passes at once":        {"1ms a@1 | 99ms", "1ms a@1"},
		"so does one after a quiet window":      {"a@1 | 21ms a@2 | 99ms", "0s a@1 | 21ms a@2"},
		"so does one just when the window ends": {"a@1 | 20ms a@2 | 99ms", "0s a@1 | 20ms a@2"},
		"the latest state of a burst passes":    {"a@1 | 5ms a@2 | 8ms a@3 | 19ms a@4 | 99ms", "0s a@1 | 20ms a@4(2 3)"},
		"the window counts from what passed":    {"a@1 | 19ms a@2 | 38ms a@3 | 99ms", "0s a@1 | 20ms a@2 | 40ms a@3"},
		"and starts anew with the next":         {"a@1 | 5ms a@2 | 26ms a@3 | 30ms a@4 | 99ms", "0s a@1 | 20ms a@2 | 40ms a@4(3)"},
		"after that the key is quiet again":     {"a@1 | 5ms a@2 | 40ms a@3 | 99ms", "0s a@1 | 20ms a@2 | 40ms a@3"},
		"keys do not hold up each other":        {"a@1 | 5ms a@2 b@1 | 7ms b@2 c@1 | 99ms", "0s a@1 | 5ms b@1 | 7ms c@1 | 20ms a@2 | 25ms b@2"},
		"those that are busy go together":       {"a@1 | 1ms b@1 | 3ms c@1 | 5ms a@2 b@2 c@2 | 99ms", "0s a@1 | 1ms b@1 | 3ms c@1 | 20ms a@2 b@2 | 23ms c@2"},
		"a batch may hold a key twice":          {"a@1 b@1 a@2 | 99ms", "0s a@2(1) b@1"},
		"an older version changes nothing":      {"a@1 | 5ms a@9 | 6ms a@8 | 7ms a@10 | 99ms", "0s a@1 | 20ms a@10(8 9)"},
		"not even as the last one":              {"a@1 | 5ms a@9 | 6ms a@8 | 99ms", "0s a@1 | 20ms a@9(8)"},
		"the end of the input ends the waiting": {"a@1 b@1 | 5ms b@2 | 6ms a@2 b@3 | 7ms", "0s a@1 b@1 | 7ms a@2 b@3(2)"},
		"errors do not wait and keep their order": {
			"!e1 a@1 !e2 | 5ms a@2 !e3 !e4 | 6ms !e5 | 99ms",
			"0s !e1 a@1 !e2 | 5ms !e3 !e4 | 6ms !e5 | 20ms a@2",
		},
	})
}

func TestABurstOfAQuietKeyPassesAtOnce(t *testing.T) {
	testBurst(t, 20*time.Millisecond, 3, map[string]debounceTest{
		"as many as the burst":                {"a@1 | 5ms a@2 | 8ms a@3 | 99ms", "0s a@1 | 5ms a@2 | 8ms a@3"},
		"those beyond it wait for the window": {"a@1 | 5ms a@2 | 8ms a@3 | 9ms a@4 | 10ms a@5 | 99ms", "0s a@1 | 5ms a@2 | 8ms a@3 | 20ms a@5(4)"},
		"after which the key is busy":         {"a@1 | 1ms a@2 | 2ms a@3 | 3ms a@4 | 21ms a@5 | 22ms a@6 | 99ms", "0s a@1 | 1ms a@2 | 2ms a@3 | 20ms a@4 | 40ms a@6(5)"},
		"until nothing waits":                 {"a@1 | 1ms a@2 | 2ms a@3 | 3ms a@4 | 41ms a@5 | 42ms a@6 | 99ms", "0s a@1 | 1ms a@2 | 2ms a@3 | 20ms a@4 | 41ms a@5 | 42ms a@6"},
		"a window begins with the first":      {"a@1 | 18ms a@2 | 21ms a@3 | 22ms a@4 | 23ms a@5 | 24ms a@6 | 99ms", "0s a@1 | 18ms a@2 | 21ms a@3 | 22ms a@4 | 23ms a@5 | 41ms a@6"},
		"keys count by themselves":            {"a@1 b@1 | 1ms a@2 | 2ms a@3 b@2 | 3ms a@4 b@3 | 99ms", "0s a@1 b@1 | 1ms a@2 | 2ms a@3 b@2 | 3ms b@3 | 20ms a@4"},
		"what a batch coalesces counts once":  {"a@1 a@2 | 1ms a@3 | 2ms a@4 | 3ms a@5 | 99ms", "0s a@2(1) | 1ms a@3 | 2ms a@4 | 20ms a@5"},
		"deletions count, too":                {"a@1 | 1ms -a@2 | 2ms a:x@3 | 3ms -a:x@4 | 99ms", "0s a@1 | 1ms -a@2 | 2ms a:x@3 | 20ms -a:x@4"},
	})
}

func TestDebounceNeverFoldsADeletionAway(t *testing.T) {
	testDebounce(t, 20*time.Millisecond, map[string]debounceTest{
		"a deletion is the latest state":            {"a@1 | 5ms a@2 | 6ms -a@3 | 99ms", "0s a@1 | 20ms -a@3(2)"},
		"a creation coalesces into its deletion":    {"a@1 -a@2 | 99ms", "0s -a@2(1)"},
		"a new object of the name comes after it":   {"a@1 | 5ms -a@2 | 6ms a:x@3 | 7ms a:x@4 | 99ms", "0s a@1 | 20ms -a@2 a:x@4(3)"},
		"each object of the name is deleted":        {"a@1 | 5ms -a@2 a:x@3 -a:x@4 a:y@5 -a:y@6 | 99ms", "0s a@1 | 20ms -a@2 -a:x@4(3) -a:y@6(5)"},
		"a new object whose old deletion is missed": {"a@1 | 5ms a@2 | 6ms a:x@3 | 99ms", "0s a@1 | 20ms a@2 a:x@3"},
		"a late event does not undo a deletion":     {"a@1 | 5ms -a@3 | 6ms a@2 | 99ms", "0s a@1 | 20ms -a@3 a@2"},
		"a deletion of an older version":            {"a@1 | 5ms a@9 | 6ms -a@7 | 99ms", "0s a@1 | 20ms -a@7(9)"},
		"a deletion with the last known version":    {"a@1 | 5ms a@7 | 6ms -a@7 | 99ms", "0s a@1 | 20ms -a@7(7)"},
	})
}

func TestDebounceKeepsListsInPlace(t *testing.T) {
	testDebounce(t, 20*time.Millisecond, map[string]debounceTest{
		"a list passes at once":              {"[1 +a@1 +b@2 ]3 | 99ms", "0s [1 +a@1 +b@2 ]3"},
		"also in parts":                      {"[1 +a@1 | 5ms +b@2 | 6ms ]3 | 99ms", "0s [1 +a@1 | 5ms +b@2 | 6ms ]3"},
		"it replaces what waits":             {"a@1 | 5ms a@2 | 9ms [2 +a@2 ]2 | 99ms", "0s a@1 | 9ms [2 +a@2 ]2"},
		"but not deletions, which go first":  {"a@1 b@1 | 5ms a@2 -b@3 b:x@4 | 9ms [4 +a@2 ]4 | 99ms", "0s a@1 b@1 | 9ms -b@3 [4 +a@2 ]4"},
		"nor what other sources say":         {"a@1 2>c@1 | 5ms a@2 2>c@2 | 9ms [2 +a@2 ]2 | 99ms", "0s a@1 2>c@1 | 9ms [2 +a@2 ]2 | 20ms 2>c@2"},
		"nor errors":                         {"[1 !e1 [2 ]2 !e2 | 99ms", "0s [1 !e1 [2 ]2 !e2"},
		"what follows does not overtake it":  {"a@1 | 5ms -a@2 [2 ]2 a:x@3 | 6ms a:x@4 | 99ms", "0s a@1 | 5ms -a@2 [2 ]2 | 20ms a:x@4(3)"},
		"of two that wait the latest counts": {"[1 +a@1 ]1 [2 +a@2 ]2 | 99ms", "0s [2 +a@2 ]2"},
		"also of one that was given up":      {"[1 +a@1 | 5ms [2 +b@2 ]2 | 99ms", "0s [1 +a@1 | 5ms [2 +b@2 ]2"},
		"after a Reset that waits, too":      {"{1 +a@1 ]1 [2 +a@2 ]2 | 99ms", "0s {2 +a@2 ]2"},
		"a Reset of another source does not": {"2>{1 2>]1 [2 +a@2 ]2 | 99ms", "0s 2>{1 2>]1 [2 +a@2 ]2"},
		"a Reset that began to pass is told": {"{1 +a@1 | 5ms [2 +b@2 ]2 | 99ms", "0s {1 +a@1 | 5ms [2 +b@2 ]2"},
		"lists of sources are independent":   {"[1 2>[1 +a@1 2>+b@1 ]1 2>]1 | 99ms", "0s [1 +a@1 ]1 2>[1 2>+b@1 2>]1"},
	})
}

func TestDebounceLetsNoBookmarkOvertakeItsSource(t *testing.T) {
	testDebounce(t, 20*time.Millisecond, map[string]debounceTest{
		"a bookmark takes along what waits":   {"a@1 | 5ms a@2 | 9ms #9 | 99ms", "0s a@1 | 9ms a@2 #9"},
		"of its source only":                  {"a@1 2>b@1 | 5ms a@2 2>b@2 | 9ms 2>#9 | 99ms", "0s a@1 2>b@1 | 9ms 2>b@2 2>#9 | 20ms a@2"},
		"also where sources share an object":  {"a@1 | 5ms 2>a@2 | 6ms 2>a@3 | 9ms 2>#9 | 99ms", "0s a@1 | 5ms 2>a@2 | 9ms 2>a@3 2>#9"},
		"bookmarks that wait are one":         {"#1 a@2 #3 | 99ms", "0s a@2 #3"},
		"those of other sources are not":      {"#1 2>#2 #3 | 99ms", "0s 2>#2 #3"},
		"a list replaces them":                {"#1 [2 ]3 #4 | 99ms", "0s [2 ]3 #4"},
		"the key is busy after it":            {"a@1 | 5ms a@2 #2 | 9ms a@3 | 99ms", "0s a@1 | 5ms a@2 #2 | 20ms a@3"},
		"for no longer than it was":           {"a@1 | 5ms a@2 #2 | 20ms a@3 | 99ms", "0s a@1 | 5ms a@2 #2 | 20ms a@3"},
		"a bookmark with nothing before it":   {"#1 | 5ms #2 | 99ms", "0s #1 | 5ms #2"},
		"it passes behind a list that waits":  {"[1 +a@1 ]1 #2 | 99ms", "0s [1 +a@1 ]1 #2"},
		"it takes along each of several keys": {"a@1 | 5ms a@2 -a@3 a:x@4 #4 | 99ms", "0s a@1 | 5ms -a@3(2) a:x@4 #4"},
	})
}

func TestDebounceLetsNoLossOfTheConnectionOvertakeItsSource(t *testing.T) {
	testDebounce(t, 20*time.Millisecond, map[string]debounceTest{
		"it takes along what waits":         {"a@1 | 5ms a@2 | 9ms ?0 | 99ms", "0s a@1 | 9ms a@2 ?0"},
		"of its source only":                {"a@1 2>b@1 | 5ms a@2 2>b@2 | 9ms 2>?0 | 99ms", "0s a@1 2>b@1 | 9ms 2>b@2 2>?0 | 20ms a@2"},
		"what comes after it is behind it":  {"?0 | 1ms =9 | 2ms a@3 #9 | 99ms", "0s ?0 | 1ms =9 | 2ms a@3 #9"},
		"the last that waits is what is so": {"?0 =1 ?0 | 1ms =2 ?0 =3 | 99ms", "0s ?0 | 1ms =3"},
		"a list replaces it":                {"?0 [2 ]3 | 99ms", "0s [2 ]3"},
		"a bookmark does not":               {"#1 ?0 =2 #3 | 99ms", "0s =2 #3"},
	})
}

func TestDebounceWithoutAWindowFoldsOnlyWhatIsThereAtOnce(t *testing.T) {
	testDebounce(t, 0, map[string]debounceTest{
		"events pass at once":             {"a@1 | 1ns a@2 | 2ns -a@3 | 99ms", "0s a@1 | 1ns a@2 | 2ns -a@3"},
		"events of a batch are coalesced": {"a@1 b@1 a@2 | 99ms", "0s a@2(1) b@1"},
		"each object of a name is":        {"a@1 -a@2 a:x@3 b@1 a:x@4 a:x@5 b@2 | 99ms", "0s -a@2(1) a:x@5(3 4) b@2(1)"},
		"lists and bookmarks":             {"a@1 [2 +a@2 ]2 #3 a@4 | 99ms", "0s [2 +a@2 ]2 #3 a@4"},
	})
}

func TestDebounceIsNeverStarvedBySteadyInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in []string
		for i := range 34 {
			in = append(in, fmt.Sprintf("%dms a@%d", 3*i, i+1))
		}
		stream := operators.Debounce(scheduled(strings.Join(in, "|")), operators.DebounceOptions{Window: 20 * time.Millisecond})
		var at []string
		for item := range stream.Observe(t.Context()) {
			last := item.V.([]streams.Event)[0]
			at = append(at, fmt.Sprintf("%d:%s", time.Since(last.Received).Milliseconds(), last.ResourceVersion))
		}
		// Events pass at 0, 20, 40, 60 and 80 ms, and at the end of the input at 99 ms. Each wait counts
		// from the first event that waited.
		if got, want := strings.Join(at, " "), "0:1 17:7 19:14 18:20 20:27 18:34"; got != want {
			t.Errorf("waited %s, want %s (milliseconds:version)", got, want)
		}
	})
}

func TestDebounceKeepsWhenTheFirstOfItsEventsCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		stream := operators.Debounce(scheduled("a@1 | 5ms a@2 | 6ms a@3 | 7ms -a@4 | 99ms"), operators.DebounceOptions{Window: 20 * time.Millisecond})
		events, _ := streams.Collect(t.Context(), stream)
		last := events[len(events)-1]
		if got := last.Received.Sub(started); got != 5*time.Millisecond {
			t.Errorf("received after %v, want 5ms", got)
		}
		want := []streams.EventType{streams.Applied, streams.Applied, streams.Deleted}
		for i, cause := range last.Causes() {
			if cause.Type != want[i] || cause.Key != last.Key || cause.ResourceVersion != fmt.Sprint(i+2) {
				t.Errorf("cause %d is %+v", i, cause)
			}
		}
	})
}

func TestDebounceCountsItsFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := &operators.StageStats{}
		in := newFeed[streams.Event]()
		stream := operators.Debounce(in.stream(), operators.DebounceOptions{Window: 20 * time.Millisecond, Stats: flow})
		ctx, cancel := context.WithCancel(t.Context())
		items := stream.Observe(ctx)
		check := func(received, sent, waiting int64) {
			t.Helper()
			if flow.In.Load() != received || flow.Out.Load() != sent || flow.Waiting.Load() != waiting || flow.Busy() != (waiting > 0) {
				t.Errorf("in %d, out %d, waiting %d, busy %v; want %d, %d, %d", flow.In.Load(), flow.Out.Load(), flow.Waiting.Load(), flow.Busy(), received, sent, waiting)
			}
		}
		in.send(event("a@1"))
		check(1, 1, 0)
		in.send(event("a@2"), event("a@3"), event("b@1"), event("b@2"))
		check(5, 2, 1)
		in <- fmt.Errorf("failed")
		synctest.Wait()
		check(5, 2, 1) // Errors do not count as events.
		pass(time.Second)
		check(5, 3, 0)
		in.send(event("a@4"))
		in.send(event("a@5"))
		check(7, 4, 1)
		cancel()
		for range items { //nolint:revive // Until it is closed.
		}
		check(7, 4, 0)
	})
}

func TestDebounceRefusesOptionsOutOfRange(t *testing.T) {
	for _, window := range []time.Duration{-1, time.Minute + 1} {
		options := operators.DebounceOptions{Window: window}
		want := fmt.Sprintf("debounce: Window is %v; allowed is 0 to 1m0s", window)
		if err := options.Validate(); err == nil || err.Error() != want {
			t.Errorf("Validate() = %v, want %v", err, want)
		}
		func() {
			defer func() {
				if got := recover(); fmt.Sprint(got) != want {
					t.Errorf("Debounce panicked with %v, want %v", got, want)
				}
			}()
			operators.Debounce(streams.Stream[streams.Event]{}, options)
		}()
	}
	for _, burst := range []int{-1, 17} {
		want := fmt.Sprintf("debounce: Burst is %d; allowed is 1 to 16", burst)
		if err := (operators.DebounceOptions{Burst: burst}).Validate(); err == nil || err.Error() != want {
			t.Errorf("Validate() = %v, want %v", err, want)
		}
	}
	if err := (operators.DebounceOptions{Window: operators.MaxWindow, Burst: operators.MaxBurst}).Validate(); err != nil {
		t.Error(err)
	}
}
