package rundir

import (
	"slices"
	"testing"
)

func TestTheMedianIsInTheMiddle(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{9, 1}, 5},
		{[]float64{100, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{5, 5, 1, 9, 0}, 5},
	} {
		before := slices.Clone(test.values)
		if got := Median(test.values); got != test.want || !slices.Equal(before, test.values) {
			t.Errorf("the median of %v is %v, not %v, and left %v", before, got, test.want, test.values)
		}
	}
}
