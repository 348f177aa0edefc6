package faults

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestTheSlopeIsThatOfTheLineThatFitsBest(t *testing.T) {
	for name, test := range map[string]struct {
		x, y []float64
		want float64
	}{
		"a line":    {[]float64{0, 1, 2, 3}, []float64{5, 7, 9, 11}, 2},
		"flat":      {[]float64{0, 1, 2}, []float64{4, 4, 4}, 0},
		"scattered": {[]float64{0, 1, 2}, []float64{0, 3, 0}, 0},
		"one point": {[]float64{1}, []float64{4}, 0},
		"no point":  {nil, nil, 0},
	} {
		if got := slope(test.x, test.y); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestMemoryThatGrowsMissesTheGoal(t *testing.T) {
	growth := Growth{Subject: "s", Runs: 3, Over: time.Hour, First: 40e6, Last: 50e6}
	for perHour, want := range map[float64]string{
		0: "\tmet\n", -9e6: "\tmet\n", 2.5e6: "\tmet\n", 2.6e6: "\tmissed\n",
	} {
		growth.PerHour = perHour
		if line := growth.Goal().Line(); !strings.HasSuffix(line, want) || !strings.Contains(line, "40.0 MB after the first run, 50.0 MB after the last") {
			t.Errorf("%v bytes an hour: %q, want %q", perHour, line, want)
		}
	}
}

func TestTheMemoryOfAProcessIsRead(t *testing.T) {
	if size, err := residentMemory(os.Getpid()); err != nil || size < 1e6 || size > 1e10 {
		t.Errorf("this process has %v bytes, %v", size, err)
	}
	if _, err := residentMemory(-1); err == nil {
		t.Error("a process that does not exist has memory")
	}
}
