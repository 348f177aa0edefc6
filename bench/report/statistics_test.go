package report

import (
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

func TestAStatisticHasTheMedianAndTheRange(t *testing.T) {
	values := []float64{3, 1, 2}
	if got := statisticOf(values); got.Min != 1 || got.Max != 3 || got.N != 3 || values[0] != 3 {
		t.Errorf("got %+v of %v", got, values)
	}
}

func TestALossIsWrittenAsPlainlyAsAWin(t *testing.T) {
	of := func(values ...float64) Statistic { return statisticOf(values) }
	converge, writes := measureNamed("converge_seconds"), measureNamed("writes")
	for _, test := range []struct {
		by           measure
		ours, theirs Statistic
		want         string
	}{
		{converge, of(1.31), of(1), "1.31x slower"},
		{converge, of(1), of(1.31), "1.31x faster"},
		{converge, of(2, 3, 4), of(4, 5, 6), "1.67x faster (spreads overlap)"},
		{converge, of(2, 2), of(2), "the same"},
		{writes, of(0), of(12), "less: 0 against 12"},
		{writes, of(12), of(0), "more: 12 against 0"},
	} {
		if got := test.by.verdict(test.ours, test.theirs); got != test.want {
			t.Errorf("%s, %v beside %v: %q, not %q", test.by.name, test.ours.Rounds, test.theirs.Rounds, got, test.want)
		}
	}
}

func TestValuesAreWrittenWithThreeDigitsAndAUnit(t *testing.T) {
	for _, test := range []struct {
		in    unit
		value float64
		want  string
	}{
		{inSeconds, 0, "0"}, {inSeconds, 12.345, "12.3 s"}, {inSeconds, 0.0012345, "1.23 ms"}, {inSeconds, 0.0000009, "0.900 µs"},
		{inBytes, 512, "512 B"}, {inBytes, 1536, "1.50 KiB"}, {inBytes, 3 << 30, "3.00 GiB"},
		{plainNumber, 4, "4"}, {plainNumber, 4.0004, "4.00"}, {plainNumber, 123456, "123456"},
	} {
		if got := test.in.write(test.value); got != test.want {
			t.Errorf("%v in %q is %q, not %q", test.value, test.in, got, test.want)
		}
	}
}

func TestOurRowIsTheOneOfTheSameSetting(t *testing.T) {
	rows := []Row{{Label: "a", Contender: Ours, Setting: "default"}, {Label: "b", Contender: Ours, Setting: "workers=8"}, {Label: "c", Contender: Ours, Setting: "default", Warm: true}}
	for _, test := range []struct {
		of   Row
		want string
	}{
		{Row{Contender: "x", Setting: "default"}, "a"},
		{Row{Contender: "x", Setting: "default", Warm: true}, "c"},
		{Row{Contender: "x", Setting: "workers=8", Warm: true}, "b"},
		{Row{Contender: "x", Setting: "workers=2"}, "a"},
	} {
		if got, is := baseline(rows, test.of); !is || got.Label != test.want {
			t.Errorf("%+v is compared with %q, not %q", test.of, got.Label, test.want)
		}
	}
	if _, is := baseline([]Row{{Contender: "x"}}, Row{Contender: "x"}); is {
		t.Error("a row of another contender is ours")
	}
}

func TestWhatReadsAreIsSaidAsTheRunCountedThem(t *testing.T) {
	old := rundir.Round{Measured: rundir.Measured{rundir.Reads: 9}}
	newer := rundir.Round{Measured: rundir.Measured{rundir.Reads: 0, rundir.ListCalls: 9}}
	for want, rounds := range map[string][]rundir.Round{"without the lists": {newer}, "including the lists": {old}} {
		if said := Summarize(rundir.Run{}, rounds).Reads; !strings.Contains(said, want) {
			t.Errorf("of %+v it says %q", rounds, said)
		}
	}
}
