package rundir_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"pgregory.net/rapid"
)

func TestAHistogramKeepsEachLatencyWithThreeDigitsAlsoInAFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		latencies := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(math.Pow(10, rapid.Float64Range(3, 12).Draw(t, "power")))
		}), 0, 300).Draw(t, "latencies")
		encoded, err := json.Marshal(rundir.HistogramOf(latencies))
		if err != nil {
			t.Fatal(err)
		}
		var read rundir.Histogram
		if err := json.Unmarshal(encoded, &read); err != nil {
			t.Fatal(err)
		}
		var kept []time.Duration
		for _, bar := range read.Bars() {
			for range bar.Count {
				kept = append(kept, bar.Latency)
			}
		}
		if len(kept) != len(latencies) || !slices.IsSorted(kept) {
			t.Fatalf("%d latencies became %v", len(latencies), kept)
		}
		slices.Sort(latencies)
		for i, latency := range latencies {
			if off := (kept[i] - latency).Abs(); off > max(latency/1000, time.Microsecond) {
				t.Fatalf("%v became %v", latency, kept[i])
			}
		}
	})
}

func TestAHistogramTakesLatenciesOutsideOfItsRange(t *testing.T) {
	bars := rundir.HistogramOf([]time.Duration{-time.Second, 0, 25 * time.Hour}).Bars()
	if len(bars) != 2 || bars[0] != (rundir.Bar{Latency: time.Microsecond, Count: 2}) || bars[1].Latency < time.Hour || bars[1].Latency > time.Hour+4*time.Second {
		t.Errorf("got %v", bars)
	}
}

func TestARoundWithABrokenHistogramIsNotRead(t *testing.T) {
	var round rundir.Round
	err := json.Unmarshal([]byte(`{"samples":{"reaction_p99_seconds":"SElTVA=="}}`), &round)
	if err == nil || !strings.Contains(err.Error(), "decode a histogram") {
		t.Errorf("the error is %v", err)
	}
}
