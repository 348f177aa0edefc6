package main

import (
	"maps"
	"regexp"
	"strings"
	"testing"
)

func TestTheOutputOfBenchmarksIsRead(t *testing.T) {
	got, err := parse([]byte(`goos: linux
pkg: example.org/p
cpu: a processor
BenchmarkPlain-2          	 1000	      1234.5 ns/op	      16 B/op	       2 allocs/op
a line of the program's own
BenchmarkDeep/keys=10/window=1ms-2	5	7 ns/op	0.25 reconciles/op
BenchmarkCore/impl=bellerophon-window0-2	100	4729.36 cpu-ns/op	3 writes/object
BenchmarkAlone	3	9 ns/op
PASS
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []sample{
		{"Plain", 1000, map[string]float64{"ns/op": 1234.5, "B/op": 16, "allocs/op": 2}},
		{"Deep/keys=10/window=1ms", 5, map[string]float64{"ns/op": 7, "reconciles/op": 0.25}},
		{"Core/impl=bellerophon-window0", 100, map[string]float64{"cpu-ns/op": 4729.36, "writes/object": 3}},
		{"Alone", 3, map[string]float64{"ns/op": 9}},
	}
	if len(got) != len(want) {
		t.Fatalf("parse() = %v, want %v", got, want)
	}
	for i := range want {
		if got[i].name != want[i].name || got[i].iterations != want[i].iterations || !maps.Equal(got[i].values, want[i].values) {
			t.Errorf("parse()[%d] = %v, want %v", i, got[i], want[i])
		}
	}
}

func TestAValueThatIsNoMeasurementIsRefused(t *testing.T) {
	for _, value := range []string{"NaN", "+Inf", "-1"} {
		if got, err := parse([]byte("BenchmarkOdd-2 1 " + value + " ns/op\n")); err == nil {
			t.Errorf("parse() of %s = %v, want an error", value, got)
		}
	}
}

func TestAPatternMatchesOneBenchmarkAlone(t *testing.T) {
	pattern := strings.Split(exactly("Pipeline/keys=1.0/a+b"), "/")
	for i, level := range []struct{ match, other string }{
		{"BenchmarkPipeline", "BenchmarkPipelineOfAll"}, {"keys=1.0", "keys=1x0"}, {"a+b", "aab"},
	} {
		if expression := regexp.MustCompile(pattern[i]); !expression.MatchString(level.match) || expression.MatchString(level.other) {
			t.Errorf("level %d is %s, want one that matches %s and not %s", i, pattern[i], level.match, level.other)
		}
	}
}
