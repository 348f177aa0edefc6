package main

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

func closeTo(a, b, by float64) bool { return math.Abs(a-b) <= by }

// The values are from the handbook's example, ZARR13.DAT.
func TestTheIntervalIsThatOfTheHandbook(t *testing.T) {
	low, high := interval(9.261460, 0.02278881, 195)
	if !closeTo(low, 9.258242, 1e-6) || !closeTo(high, 9.264679, 1e-6) {
		t.Errorf("interval() = %v to %v, want 9.258242 to 9.264679", low, high)
	}
}

// The quantiles are in any printed table of the distribution.
func TestTheQuantilesAreThoseOfThePrintedTable(t *testing.T) {
	for freedom, want := range map[float64]float64{1: 12.706, 4: 2.776, 9: 2.262, 29: 2.045} {
		if got := (distuv.StudentsT{Sigma: 1, Nu: freedom}).Quantile(0.975); !closeTo(got, want, 5e-4) {
			t.Errorf("the quantile of %v degrees of freedom is %v, want %v", freedom, got, want)
		}
	}
}

// Computed by hand: the logarithms are 0.1, 0.2 and 0.3, their deviation is 0.1, and
// t(0.975, 2) is 4.302653.
func TestTheRatioIsTheGeometricMeanWithItsInterval(t *testing.T) {
	base := []float64{100, 10, 1}
	change := []float64{100 * math.Exp(0.1), 10 * math.Exp(0.2), math.Exp(0.3)}
	got := ratioOf("b", "ns/op", base, change)
	half := 4.302653 * 0.1 / math.Sqrt(3)
	for name, pair := range map[string][2]float64{
		"mean": {*got.Mean, math.Exp(0.2)}, "low": {*got.Low, math.Exp(0.2 - half)}, "high": {*got.High, math.Exp(0.2 + half)},
		"base": {got.Base, 10}, "change": {got.Change, 10 * math.Exp(0.2)},
	} {
		if !closeTo(pair[0], pair[1], 1e-5) {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
}

func TestTwiceAndHalfAreOneTogether(t *testing.T) {
	if got := ratioOf("b", "ns/op", []float64{1, 4}, []float64{2, 2}); *got.Mean != 1 {
		t.Errorf("the mean is %v, want 1", *got.Mean)
	}
}

func TestARowIsWorseIfItsUpperEndExceedsTheBoundOrItsWritesDiffer(t *testing.T) {
	same := slices.Repeat([]float64{200}, 10)
	times := func(factor float64) []float64 { return slices.Repeat([]float64{200 * factor}, 10) }
	noisy := []float64{190, 215, 190, 215, 190, 215, 190, 215, 190, 225} // Mean 1.01, upper end 1.06.
	for name, test := range map[string]struct {
		unit         string
		base, change []float64
		worse        bool
	}{
		"equal":                   {"ns/op", same, times(1), false},
		"a little slower":         {"ns/op", same, times(1.049), false},
		"slower":                  {"ns/op", same, times(1.051), true},
		"more CPU":                {cpuUnit, same, times(1.051), true},
		"more bytes":              {"B/op", same, times(1.051), true},
		"more allocations":        {"allocs/op", same, times(1.051), true},
		"faster":                  {"ns/op", same, times(0.5), false},
		"too noisy to tell":       {"ns/op", same, noisy, true},
		"equal writes":            {"writes/object", same, times(1), false},
		"more writes":             {"writes/object", same, times(1.001), true},
		"fewer writes":            {"writes/object", same, times(0.999), true},
		"writes within the noise": {"writes/object", same, noisy, false},
		"no allocations":          {"allocs/op", make([]float64, 10), make([]float64, 10), false},
		"the first allocation":    {"allocs/op", make([]float64, 10), slices.Repeat([]float64{1}, 10), true},
		"one byte in one run":     {"B/op", make([]float64, 10), append(make([]float64, 9), 1), false},
		"no allocation any more":  {"allocs/op", same, make([]float64, 10), false},
		"the first write":         {"writes/object", make([]float64, 10), append(make([]float64, 9), 1), true},
		"no write any more":       {"writes/object", same, make([]float64, 10), true},
	} {
		t.Run(name, func(t *testing.T) {
			got := ratioOf("b", test.unit, test.base, test.change)
			if got.Worse != test.worse {
				t.Errorf("worse is %v, want %v: %s", got.Worse, test.worse, got.line())
			}
		})
	}
}

func TestPairsWithoutARatioHaveMeansOnly(t *testing.T) {
	got := ratioOf("b", "allocs/op", []float64{0, 2}, []float64{3, 2})
	if got.Mean != nil || got.Low != nil || got.High != nil || got.Base != 1 || got.Change != 2.5 {
		t.Errorf("ratioOf() = %+v, want means of 1 and 2.5 and no ratio", got)
	}
}
