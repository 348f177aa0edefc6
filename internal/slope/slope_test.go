package slope

import (
	"math"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheSlopeIsThatOfTheLineThatFitsBestWithItsInterval(t *testing.T) {
	unknown := math.Inf(1)
	for name, test := range map[string]struct {
		x, y []float64
		want Slope
	}{
		"a line":     {[]float64{0, 1, 2, 3}, []float64{5, 7, 9, 11}, Slope{2, 0}},
		"flat":       {[]float64{0, 1, 2}, []float64{4, 4, 4}, Slope{0, 0}},
		"scattered":  {[]float64{0, 1, 2}, []float64{0, 3, 0}, Slope{0, 12.706 * math.Sqrt(3)}},
		"two points": {[]float64{1, 2}, []float64{4, 5}, Slope{0, unknown}},
		"no point":   {nil, nil, Slope{0, unknown}},
	} {
		got := line(test.x, test.y)
		if got.PerHour != test.want.PerHour || math.Abs(got.Margin-test.want.Margin) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestThePointsAreTheMeansOfWholePeriodsAfterTheWarmUp(t *testing.T) {
	minutes := func(values ...float64) (samples []Sample) {
		for i, value := range values {
			samples = append(samples, Sample{time.Duration(i) * time.Minute, value})
		}
		return samples
	}
	for name, test := range map[string]struct {
		samples []Sample
		level   float64
		want    Slope
	}{
		// After two minutes, each period has two samples.
		"a line":                     {minutes(90, 80, 0, 2, 2, 4, 4, 6, 99), 3, Slope{60, 0}},
		"the last period goes on":    {minutes(0, 0, 1, 1, 1, 1, 1, 1, 5, 5), 1, Slope{0, 0}},
		"too few periods":            {minutes(0, 0, 3, 3, 3, 3, 3), 3, Slope{0, math.Inf(1)}},
		"a warm-up that lasts":       {minutes(1, 2), math.NaN(), Slope{0, math.Inf(1)}},
		"no sample":                  {nil, math.NaN(), Slope{0, math.Inf(1)}},
		"a period that has no value": {append(minutes(0, 0, 1, 1), Sample{6 * time.Minute, 3}, Sample{8 * time.Minute, 4}, Sample{10 * time.Minute, 9}), 8. / 3, Slope{30, 0}},
	} {
		level, got := Of(test.samples, 2*time.Minute, 2*time.Minute)
		if math.Abs(got.PerHour-test.want.PerHour) > 1e-9 || !(got.Margin == test.want.Margin || math.Abs(got.Margin-test.want.Margin) < 1e-9) {
			t.Errorf("%s: the slope is %v, want %v", name, got, test.want)
		}
		if level != test.level && !(math.IsNaN(level) && math.IsNaN(test.level)) {
			t.Errorf("%s: the level is %v, want %v", name, level, test.level)
		}
	}
}
