package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestAnIntervalHoldsTheTrueMedianAboutAsOftenAsItSays(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	const trials = 400
	for _, turns := range []int{enough, 8, 20} {
		held := 0
		for range trials {
			values := make([]float64, turns)
			for i := range values {
				values[i] = math.Exp(0.1 * random.NormFloat64())
			}
			if is := intervalOf(values); is.low <= 1 && 1 <= is.high {
				held++
			}
		}
		if share := float64(held) / trials; share < 0.88 {
			t.Errorf("intervals of %d turns hold the true median in %.3f of the cases", turns, share)
		}
	}
}

func TestAnIntervalDependsOnTheValuesAloneAndLiesWithinThem(t *testing.T) {
	values := []float64{3, 1, 2, 5, 4, 9, 8}
	is := intervalOf(values)
	if again := intervalOf(slices.Clone(values)); is != again {
		t.Errorf("got %+v and %+v", is, again)
	}
	if is.median != 4 || is.low < 1 || is.low > is.median || is.high > 9 || is.high < is.median || is.turns != 7 {
		t.Errorf("got %+v of %v", is, values)
	}
	if one := intervalOf([]float64{3}); one != (interval{3, 3, 3, 1}) {
		t.Errorf("got %+v of one value", one)
	}
}
