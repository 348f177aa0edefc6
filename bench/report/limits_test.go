package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"pgregory.net/rapid"
)

// limitRound creates a round of a sweep over memory limits.
func limitRound(contender, setting string, time, cpu, memory float64) rundir.Round {
	return rundir.Round{Scenario: "burst", Variant: "n=1000", Contender: contender, Setting: setting,
		Measured: rundir.Measured{rundir.Converge: time, rundir.ContenderCPU: cpu, rundir.PeakMemory: memory}}
}

func TestTheBestSizeIsTheSmallestThatCostsLittle(t *testing.T) {
	round := func(setting string, time, cpu float64) rundir.Round { return limitRound("a", setting, time, cpu, 1) }
	with := func(round rundir.Round, failed, rejected string, warm bool) rundir.Round {
		round.Failed, round.Rejected, round.Warm = failed, rejected, warm
		return round
	}
	usual := round("default", 10, 4)
	for name, test := range map[string]struct {
		rounds []rundir.Round
		want   string
	}{
		"small enough":               {[]rundir.Round{usual, round("memory=64MiB", 10.9, 4.9), round("memory=128MiB", 10, 4)}, "64 MiB"},
		"as much as is allowed":      {[]rundir.Round{usual, round("memory=64MiB", 11, 5)}, "64 MiB"},
		"slow":                       {[]rundir.Round{usual, round("memory=64MiB", 11.1, 4), round("memory=128MiB", 10, 4)}, "128 MiB"},
		"busy":                       {[]rundir.Round{usual, round("memory=64MiB", 10, 5.1)}, "none below its default"},
		"failed once":                {[]rundir.Round{usual, round("memory=64MiB", 10, 4), with(round("memory=64MiB", 0, 0), "out of memory", "", false)}, "none below its default"},
		"a rejected one is slow":     {[]rundir.Round{usual, round("memory=64MiB", 10, 4), with(round("memory=64MiB", 99, 99), "", "the machine was busy", false)}, "64 MiB"},
		"only rejected ones":         {[]rundir.Round{usual, with(round("memory=64MiB", 10, 4), "", "the machine was busy", false)}, "unknown: no round with a limit counts"},
		"a warm default is faster":   {[]rundir.Round{usual, with(round("default", 1, 1), "", "", true), round("memory=64MiB", 10, 4)}, "64 MiB"},
		"by the number, not by text": {[]rundir.Round{usual, round("memory=1024MiB", 10, 4), round("memory=256MiB", 10, 4)}, "256 MiB"},
		"default failed":             {[]rundir.Round{with(round("default", 10, 4), "it hangs", "", false), round("memory=64MiB", 10, 4)}, "unknown: no round of its default counts"},
		"workers are no limit":       {[]rundir.Round{usual, round("workers=8", 10, 4)}, "no round with a limit"},
	} {
		if got := limitedOf("a", test.rounds).Words; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestContendersAreComparedAtTheirBestSizes(t *testing.T) {
	found := limitsOf(rundir.Run{Contenders: []string{"kube-rs", "b", Ours}}, []rundir.Round{
		limitRound("kube-rs", "default", 5, 1, 90<<20), limitRound("b", "default", 8, 4, 300<<20), limitRound("b", "memory=64MiB", 8.5, 4.5, 120<<20),
		limitRound(Ours, "default", 4, 2, 60<<20), limitRound(Ours, "memory=64MiB", 4, 2, 45<<20), limitRound(Ours, "memory=32MiB", 9, 2, 40<<20),
		{Scenario: "idle", Variant: "n=20", Contender: Ours, Setting: "default"},
	})
	if len(found) != 1 || found[0].Name() != "burst n=1000" {
		t.Fatalf("limits: %+v", found)
	}
	var got []string
	for _, row := range found[0].Rows {
		got = append(got, fmt.Sprintf("%s, %s: %s", row.Contender, row.Words, strings.Join(row.Cells, " | ")))
	}
	want := []string{
		"bellerophon, 64 MiB: 45.0 MiB | 60.0 MiB | 4.00 s | 4.00 s | 2.00 s | 2.00 s | 1.00",
		"kube-rs, its runtime has no heap limit: 90.0 MiB | 90.0 MiB | 5.00 s | 5.00 s | 1.00 s | 1.00 s | 2.00",
		"b, 64 MiB: 120 MiB | 300 MiB | 8.50 s | 8.00 s | 4.50 s | 4.00 s | 2.67",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestWhereNothingConvergesTheTimeUntilAllIsQuietDecides(t *testing.T) {
	quiet := func(setting string, time float64) rundir.Round {
		round := limitRound("a", setting, 0, 1, 1)
		delete(round.Measured, rundir.Converge)
		round.Measured[rundir.Settled] = time
		return round
	}
	if got := limitedOf("a", []rundir.Round{quiet("default", 10), quiet("memory=64MiB", 12), quiet("memory=128MiB", 11)}).MiB; got != 128 {
		t.Errorf("%d MiB are enough, want 128", got)
	}
}

func TestARunWithoutASweepSaysNothingOfLimits(t *testing.T) {
	summary := Summarize(rundir.Run{}, []rundir.Round{limitRound(Ours, "default", 1, 1, 1), limitRound(Ours, "workers=8", 1, 1, 1)})
	var text strings.Builder
	if err := summary.Markdown(&text); err != nil || summary.Limits != nil || strings.Contains(text.String(), "Best passing size") {
		t.Errorf("got %+v and %v in\n%s", summary.Limits, err, text.String())
	}
}

func TestTheBestSizePassesAndNoSmallerOneDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.Float64Range(1, 3)
		settings := rapid.SampledFrom([]string{"default", "workers=8", "memory=16MiB", "memory=32MiB", "memory=128MiB", "memory=1024MiB"})
		rounds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) rundir.Round {
			round := limitRound("a", settings.Draw(t, "setting"), few.Draw(t, "time"), few.Draw(t, "CPU"), 1)
			round.Failed = rapid.SampledFrom([]string{"", "", "", "out of memory"}).Draw(t, "failed")
			round.Rejected = rapid.SampledFrom([]string{"", "", "", "the machine was busy"}).Draw(t, "rejected")
			return round
		}), 0, 20).Draw(t, "rounds")
		// passing defines the rule independently, for one size.
		passing := func(size int) bool {
			var times, cpu, usualTimes, usualCPU []float64
			for _, round := range rounds {
				time, used := round.Measured[rundir.Converge], round.Measured[rundir.ContenderCPU]
				switch {
				case round.Setting == fmt.Sprintf("memory=%dMiB", size) && round.Failed != "":
					return false
				case round.Failed != "" || round.Rejected != "":
				case round.Setting == "default":
					usualTimes, usualCPU = append(usualTimes, time), append(usualCPU, used)
				case round.Setting == fmt.Sprintf("memory=%dMiB", size):
					times, cpu = append(times, time), append(cpu, used)
				}
			}
			return len(times) > 0 && len(usualTimes) > 0 && rundir.Median(times) <= 1.1*rundir.Median(usualTimes) && rundir.Median(cpu) <= 1.25*rundir.Median(usualCPU)
		}
		best := limitedOf("a", rounds).MiB
		if best > 0 && !passing(best) {
			t.Errorf("%d MiB does not pass", best)
		}
		for _, size := range []int{16, 32, 128, 1024} {
			if (best == 0 || size < best) && passing(size) {
				t.Errorf("%d MiB passes, but the best is said to be %d", size, best)
			}
		}
	})
}
