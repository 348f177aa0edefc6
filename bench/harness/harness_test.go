package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options(t *testing.T) Options {
	t.Helper()
	return Options{Contenders: "bellerophon,controller-runtime,ideal", Scenarios: "burst:n=5", Conformance: "check", Cores: sharedCores, Dir: t.TempDir(), Turns: 2, Ideal: 5, Tolerance: 0.1, Log: io.Discard}
}

// fake returns a run whose rounds take no time. made collects the rounds that were measured, each
// as its contender, setting and turn.
func fake(t *testing.T, o Options, measured func(planned) (rundir.Measured, error)) (r *run, made *[]string) {
	t.Helper()
	chosen, err := o.complete()
	if err != nil {
		t.Fatal(err)
	}
	made = &[]string{}
	r = &run{choice: chosen, show: newProgress(screen.To(&bytes.Buffer{})), unmade: map[string]error{}}
	r.finding = func(context.Context, planned) (string, error) { return "", nil }
	r.measured = func(_ context.Context, p planned, _ string) (measurement, error) {
		*made = append(*made, fmt.Sprintf("%s %s %d", p.Contender, p.Setting, p.Turn))
		made, err := measured(p)
		return measurement{Measured: made}, err
	}
	return r, made
}

func steadyIdeal(planned) (rundir.Measured, error) {
	return rundir.Measured{rundir.IdealConverge: 1}, nil
}

func TestTurnsGoThroughTheContendersForwardsAndBackwards(t *testing.T) {
	o := options(t)
	o.Workers, o.Turns = "8", 3
	r, made := fake(t, o, steadyIdeal)
	if err := r.rounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	forwards := []string{"bellerophon default", "controller-runtime default", "ideal default", "bellerophon workers=8", "controller-runtime workers=8", "ideal workers=8"}
	var want []string
	for turn := range 3 {
		order := slices.Clone(forwards)
		switch turn {
		case 1:
			slices.Reverse(order)
		case 2:
			order = order[:3] // Settings are swept in the first two turns.
		}
		for _, one := range order {
			want = append(want, fmt.Sprint(one, " ", turn))
		}
	}
	if !slices.Equal(*made, want) {
		t.Errorf("made %q, want %q", *made, want)
	}
}

func TestWhoOnlyCreatesIsLeftOutOfOtherScenariosAndSweepsAreThoseOfTheScenario(t *testing.T) {
	o := options(t)
	o.Scenarios, o.Turns, o.Workers, o.Memory, o.Warm = "drift:n=5,steady:n=5:load=75,burst:n=5", 1, "1", "64Mi", true
	r, made := fake(t, o, steadyIdeal)
	if err := r.rounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	count := func(text string) (n int) {
		for _, one := range *made {
			if strings.Contains(one, text) {
				n++
			}
		}
		return n
	}
	// drift: the default setting of two contenders. steady: default, workers and warm. burst:
	// memory too.
	if got, want := []int{count("ideal "), count("bellerophon "), count("controller-runtime "), count("workers=1"), count("memory=64MiB")}, []int{4, 8, 6, 6, 2}; !slices.Equal(got, want) {
		t.Errorf("counts are %v, want %v: %q", got, want, *made)
	}
}

func TestSettingsAreSweptInAsManyTurnsAsAsked(t *testing.T) {
	for asked, want := range map[int]int{0: 2, 1: 1, 3: 3, 9: 4} {
		o := options(t)
		o.Contenders, o.Scenarios, o.Turns, o.Workers, o.SweepTurns, o.Ideal = "bellerophon", "burst:n=5", 4, "8", asked, 0
		r, made := fake(t, o, func(planned) (rundir.Measured, error) { return rundir.Measured{}, nil })
		if err := r.rounds(t.Context()); err != nil {
			t.Fatal(err)
		}
		swept := slices.DeleteFunc(slices.Clone(*made), func(one string) bool { return !strings.Contains(one, "workers=8") })
		if len(swept) != want {
			t.Errorf("%d sweep turns of 4 turns: %q, want %d of them", asked, swept, want)
		}
	}
}

func TestWhoCannotElectOrShareIsLeftOutOfTheScenarioAndANoteSaysSo(t *testing.T) {
	o := options(t)
	o.Contenders, o.Scenarios, o.Turns, o.Ideal = "bellerophon,controller-runtime-equal,kube-rs", "failover:n=5,shards:n=5,idle", 1, 0
	r, made := fake(t, o, func(planned) (rundir.Measured, error) { return rundir.Measured{}, nil })
	if err := r.rounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"bellerophon default 0", "controller-runtime-equal default 0"}                         // failover
	want = append(want, "bellerophon default 0")                                                            // shards
	want = append(want, "bellerophon default 0", "controller-runtime-equal default 0", "kube-rs default 0") // idle
	if !slices.Equal(*made, want) {
		t.Errorf("made %q, want %q", *made, want)
	}
	notes := strings.Join(r.notes(), "\n")
	for _, want := range []string{"kube-rs is left out of failover", "kube-rs is left out of shards", "controller-runtime-equal is left out of shards"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes are %q, want %q among them", notes, want)
		}
	}
	if strings.Contains(notes, "bellerophon is left out") || strings.Contains(notes, "idle") {
		t.Errorf("the notes are %q", notes)
	}
}

func TestContendersWithoutAProgramOfManyKindsAreLeftOutOfKindsAndANoteSaysWhy(t *testing.T) {
	o := options(t)
	o.Contenders, o.Scenarios, o.Turns = "bellerophon,controller-runtime,controller-runtime-equal,kube-rs,ideal", "kinds:n=3:m=6", 1
	r, made := fake(t, o, steadyIdeal)
	if err := r.rounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"bellerophon default 0", "controller-runtime-equal default 0"}; !slices.Equal(*made, want) {
		t.Errorf("made %q, want %q", *made, want)
	}
	notes := strings.Join(r.notes(), "\n")
	for _, name := range []string{"controller-runtime", "kube-rs", "ideal"} {
		if want := name + " takes no part in kinds: " + contender.Facts(name).NoKinds; !strings.Contains(notes, want) {
			t.Errorf("the notes are %q, want %q among them", notes, want)
		}
	}
	o.Scenarios = "burst:n=5"
	if other, _ := fake(t, o, steadyIdeal); strings.Contains(strings.Join(other.notes(), "\n"), "kinds") {
		t.Errorf("without the scenario, the notes are %q", other.notes())
	}
}

func TestARunIsNotResumedWithAnotherProgramOfManyKinds(t *testing.T) {
	o := options(t)
	o.Contenders, o.Scenarios = "bellerophon", "kinds:n=3:m=6"
	r, _ := unchecked(t, o, nil)
	r.kinds = map[string]*contender.Program{"bellerophon": {Identity: "first"}}
	if err := r.begin(nil); err != nil {
		t.Fatal(err)
	}
	if err := r.begin(nil); err != nil {
		t.Errorf("the same program is refused: %v", err)
	}
	r.kinds["bellerophon"].Identity = "second"
	if err := r.begin(nil); err == nil || !strings.Contains(err.Error(), "another build of bellerophon") {
		t.Errorf("another program: %v", err)
	}
}

func TestARunGoesOnWithTheRoundsThatAreMissing(t *testing.T) {
	o := options(t)
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	rounds := 0
	r, made := fake(t, o, func(planned) (rundir.Measured, error) {
		if rounds++; rounds == 4 {
			cancel(stopped)
		}
		return rundir.Measured{rundir.IdealConverge: 1}, nil
	})
	if err := r.rounds(ctx); !errors.Is(err, stopped) || len(*made) != 4 {
		t.Fatalf("made %q: %v", *made, err)
	}
	r, made = fake(t, o, steadyIdeal)
	if err := r.rounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"ideal default 1", "controller-runtime default 1", "bellerophon default 1"}; !slices.Equal(*made, want) {
		t.Errorf("it went on with %q, want %q", *made, want)
	}
}

func TestNoRoundIsBegunThatWouldNotBeOverAtTheLimit(t *testing.T) {
	o := options(t)
	o.Limit = time.Hour
	r, made := fake(t, o, steadyIdeal)
	r.began = time.Now()
	measured := r.measured
	r.measured = func(ctx context.Context, p planned, data string) (measurement, error) {
		if len(*made) == 2 {
			r.longest = 2 * time.Hour
		}
		return measured(ctx, p, data)
	}
	if err := r.rounds(t.Context()); !errors.Is(err, errLimit) || len(*made) != 3 {
		t.Errorf("made %q: %v, want three rounds and the limit", *made, err)
	}
}

func TestTheTimeOfARoundIsWithoutThatOfMakingWhatItFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(t)
		o.Contenders, o.Turns, o.Limit = "bellerophon", 10, time.Hour
		rounds := 0
		r, _ := fake(t, o, nil)
		r.finding = func(context.Context, planned) (string, error) {
			if rounds == 0 {
				<-time.After(35 * time.Minute)
			}
			return "data", nil
		}
		r.measured = func(_ context.Context, _ planned, data string) (measurement, error) {
			rounds++
			<-time.After(10 * time.Minute)
			return measurement{Measured: rundir.Measured{rundir.IdealConverge: float64(len(data))}}, nil
		}
		r.began = time.Now()
		if err := r.rounds(t.Context()); !errors.Is(err, errLimit) || rounds != 2 {
			t.Errorf("%d rounds were made: %v, want 2 and the limit", rounds, err)
		}
	})
}

func TestARoundWhoseMakingOfWhatItFindsTakesTooLongIsLeftToTheNextTime(t *testing.T) {
	o := options(t)
	o.Limit = time.Hour
	r, made := fake(t, o, steadyIdeal)
	r.began = time.Now()
	r.finding = func(context.Context, planned) (string, error) {
		r.began = r.began.Add(-2 * time.Hour)
		return "data", nil
	}
	if err := r.rounds(t.Context()); !errors.Is(err, errLimit) || len(*made) != 0 {
		t.Errorf("made %q: %v, want no round and the limit", *made, err)
	}
}

func TestARunWithOtherFlagsIsRefused(t *testing.T) {
	o := options(t)
	r, _ := fake(t, o, steadyIdeal)
	r.contenders = nil
	if err := r.begin(nil); err != nil {
		t.Fatal(err)
	}
	if err := r.begin(nil); err != nil {
		t.Errorf("the same flags are refused: %v", err)
	}
	turns := r.Turns
	for name, change := range map[string]func(){
		"fewer turns":       func() { r.Turns = turns - 1 },
		"another tolerance": func() { r.Turns, r.Tolerance = turns, r.Tolerance*2 },
	} {
		before := r.Options
		change()
		if err := r.begin(nil); err == nil || !strings.Contains(err.Error(), "other flags") {
			t.Errorf("%s: %v", name, err)
		}
		r.Options = before
	}
}

func TestARunGoesOnWithOtherContendersAndMoreTurns(t *testing.T) {
	o := options(t)
	o.Contenders = "bellerophon,ideal"
	r, _ := unchecked(t, o, nil)
	if err := r.begin(map[string]string{"kube-rs": "no Rust"}); err != nil {
		t.Fatal(err)
	}
	r.Options.Contenders, r.Turns = "ideal", r.Turns+1
	r.contenders = slices.DeleteFunc(r.contenders, func(c contender.Contender) bool { return c.Name != "ideal" })
	r.contenders[0].Notes = []string{"it has no framework"}
	if err := r.begin(nil); err != nil {
		t.Fatal(err)
	}
	described, err := rundir.ReadRun(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	repeated := []string{"--contenders=bellerophon,ideal", fmt.Sprint("--turns=", r.Turns)}
	for _, flag := range repeated {
		if !slices.Contains(described.Flags, flag) {
			t.Errorf("it is repeated with %q, want %q among them", described.Flags, flag)
		}
	}
	if described.Turns != r.Turns {
		t.Errorf("it has %d turns, want %d", described.Turns, r.Turns)
	}
	if described.Skipped["kube-rs"] != "no Rust" {
		t.Errorf("left out were %q, want the contender that was left out before, too", described.Skipped)
	}
	if settings := described.Settings; settings["bellerophon"].Workers != "32" || settings["ideal"].Processors != "all" {
		t.Errorf("it has the settings %v, want those of both contenders", settings)
	}
	if !slices.Contains(described.Notes, "it has no framework") {
		t.Errorf("it has the notes %q, want the note of the other contender, too", described.Notes)
	}
}

func TestWhatAContenderFailsAtFailsItsRoundAndWhatTheHarnessFailsAtRejectsIt(t *testing.T) {
	o := options(t)
	o.Turns = 1
	r, made := fake(t, o, func(p planned) (rundir.Measured, error) {
		switch p.Contender {
		case "bellerophon":
			return nil, fmt.Errorf("waiting: %w", &scenario.Failure{Err: errors.New("it hangs")})
		case "ideal":
			return nil, errors.New("no cluster")
		}
		return rundir.Measured{rundir.IdealConverge: 1}, nil
	})
	if err := r.rounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"bellerophon default 0", "controller-runtime default 0", "ideal default 0",
		"ideal default 1", "controller-runtime default 1", "bellerophon default 1",
		"bellerophon default 2", "controller-runtime default 2", "ideal default 2",
	}
	if !slices.Equal(*made, want) {
		t.Errorf("made %q, want %q: turns with a rejected round are repeated twice", *made, want)
	}
	rounds, err := rundir.ReadRounds(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, round := range rounds {
		is := round.Contender
		if (round.Failed != "") != (is == "bellerophon") || (round.Rejected == "no cluster") != (is == "ideal") || round.IsComplete() != (is == "controller-runtime") {
			t.Errorf("a round is %+v", round)
		}
	}
}

func idealRounds(seconds ...float64) []rundir.Round {
	rounds := make([]rundir.Round, len(seconds))
	for i, s := range seconds {
		rounds[i] = rundir.Round{Contender: "a", Turn: i, Start: time.Unix(int64(i), 0), Measured: rundir.Measured{rundir.IdealConverge: s}}
	}
	return rounds
}

func TestARoundIsNoisyAndCountsIfItsIdealClientIsFarFromTheMedian(t *testing.T) {
	rounds := idealRounds(1.00, 1.09, 0.91, 1.11, 0.89)
	judged, lacking := idealTimesOf(rounds, 0.1).judge(rounds, map[series]int{{contender: "a"}: 5})
	var turns []int
	for _, round := range judged {
		if !round.IsComplete() {
			t.Errorf("the round %+v does not count", round)
		}
		if round.Noisy == "" {
			continue
		}
		turns = append(turns, round.Turn)
		if !strings.Contains(round.Noisy, "from the median of 5 rounds") {
			t.Errorf("the reason is %q", round.Noisy)
		}
	}
	if len(lacking) != 0 {
		t.Errorf("lacking are %v, want none", lacking)
	}
	if !slices.Equal(turns, []int{3, 4}) {
		t.Errorf("noisy are %v, want the two that are more than 10 %% off", turns)
	}
}

func TestARoundIsNoLongerNoisyWhenTheMedianHasMovedToIt(t *testing.T) {
	rounds := idealRounds(1.2, 1.2, 1.2, 1.0)
	rounds[0].Rejected = rundir.MachineMoved + "it was off"
	rounds[1].Rejected = "no cluster"
	rounds[2].Noisy = rundir.MachineMoved + "it was off"
	rounds[3].Failed = "it hangs"
	judged, lacking := idealTimesOf(rounds, 0.1).judge(rounds, map[series]int{{contender: "a"}: 4})
	if !judged[0].IsComplete() || !judged[2].IsComplete() || judged[2].Noisy != "" || judged[1].Rejected != "no cluster" || judged[3].Rejected != "" {
		t.Errorf("judged %+v, want the first and the third to count", judged)
	}
	if want := map[series]int{{contender: "a"}: 1}; !maps.Equal(lacking, want) {
		t.Errorf("lacking are %v, want %v: a failure is a result", lacking, want)
	}
}

func TestIdealClientsAreComparedOnlyIfTheyDidTheSame(t *testing.T) {
	rounds := idealRounds(1, 1, 1, 2, 2, 2.5)
	for i := 3; i < 6; i++ {
		rounds[i].Measured[rundir.IdealReplicas] = 1
	}
	judged, _ := idealTimesOf(rounds, 0.1).judge(rounds, map[series]int{{contender: "a"}: 6})
	for i, round := range judged {
		if (round.Noisy != "") != (i == 5) {
			t.Errorf("round %d is noisy: %q, want the last alone to be, which is far from 2", i, round.Noisy)
		}
	}
}

func TestOneTurnOfAllScenariosComesBeforeTheNext(t *testing.T) {
	o := options(t)
	o.Contenders, o.Scenarios = "bellerophon", "burst:n=5,drift:n=5"
	r, _ := fake(t, o, nil)
	var made []string
	r.measured = func(_ context.Context, p planned, _ string) (measurement, error) {
		made = append(made, fmt.Sprint(p.Scenario, " ", p.Turn))
		return measurement{Measured: rundir.Measured{rundir.IdealConverge: 1}}, nil
	}
	if err := r.rounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"burst 0", "drift 0", "burst 1", "drift 1"}; !slices.Equal(made, want) {
		t.Errorf("made %q, want %q", made, want)
	}
}

func TestRejectedRoundsAreMadeAgainInWholeTurnsUntilThereAreEnough(t *testing.T) {
	o := options(t)
	o.Contenders = "bellerophon,controller-runtime"
	r, made := fake(t, o, nil)
	r.measured = func(_ context.Context, p planned, _ string) (measurement, error) {
		key := fmt.Sprintf("%s %s %d", p.Contender, p.Setting, p.Turn)
		*made = append(*made, key)
		switch key {
		case "bellerophon default 1", "bellerophon default 2":
			return measurement{}, errors.New("no cluster")
		case "controller-runtime default 1": // The machine is slow, which is no reason to make it again.
			return measurement{Measured: rundir.Measured{rundir.IdealConverge: 3}}, nil
		}
		return measurement{Measured: rundir.Measured{rundir.IdealConverge: 1}}, nil
	}
	if err := r.rounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"bellerophon default 2", "controller-runtime default 2", "bellerophon default 4", "controller-runtime default 4"}
	if got := (*made)[4:]; !slices.Equal(got, want) {
		t.Errorf("made again %q, want %q", got, want)
	}
}

func TestTheMedianIsThatOfAllScenarios(t *testing.T) {
	o := options(t)
	o.Contenders, o.Scenarios, o.Turns = "bellerophon,controller-runtime", "burst:n=5,storm:n=5:m=1,drift:n=5", 1
	r, _ := fake(t, o, nil)
	r.measured = func(_ context.Context, p planned, _ string) (measurement, error) {
		if p.Scenario == "drift" {
			return measurement{Measured: rundir.Measured{rundir.IdealConverge: 2}}, nil
		}
		return measurement{Measured: rundir.Measured{rundir.IdealConverge: 1}}, nil
	}
	if err := r.rounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	rounds, err := rundir.ReadRounds(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, round := range rounds {
		if (round.Noisy != "") != (round.Scenario == "drift") {
			t.Errorf("%s is noisy: %q, want the rounds of drift alone", round.ID(), round.Noisy)
		}
	}
}

func TestOptionsAreValidatedWithTheirNamesAndRanges(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"conformance": {func(o *Options) { o.Conformance = "maybe" }, `--conformance is "maybe"; allowed are check and skip`},
		"sweep turns": {func(o *Options) { o.SweepTurns = 101 }, "--sweep-turns is 101; allowed is 1 to 100"},
		"turns":       {func(o *Options) { o.Turns = 0 }, "--turns is 0; allowed is 1 to 100"},
		"ideal":       {func(o *Options) { o.Ideal = -1 }, "--ideal is -1; allowed is 0 to 1000"},
		"cores":       {func(o *Options) { o.Cores = "many" }, `--cores is "many"; allowed are shared and own`},
		"cgroup":      {func(o *Options) { o.Cgroup = "cpu=1,memory=1Mi" }, `--cgroup: memory is "1Mi"; allowed are quantities from 16Mi`},
		"no ideal":    {func(o *Options) { o.Ideal, o.Scenarios = 0, "steady" }, "steady needs the rate of the ideal client"},
		"tolerance":   {func(o *Options) { o.Tolerance = 0 }, "--tolerance is 0"},
		"out":         {func(o *Options) { o.Dir = "" }, "--out is missing"},
		"contenders":  {func(o *Options) { o.Contenders = "nobody" }, `--contenders: there is no contender "nobody"`},
		"scenarios":   {func(o *Options) { o.Scenarios = "flood" }, `--scenarios: there is no scenario "flood"; allowed are burst`},
		"workers":     {func(o *Options) { o.Workers = "1,many" }, `--workers has "many"; allowed are numbers from 1 to 1024`},
		"memory":      {func(o *Options) { o.Memory = "1Mi" }, `--memory has "1Mi"; allowed are quantities from 16Mi`},
	} {
		o := options(t)
		test.change(&o)
		if _, err := o.complete(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestTheRateOfOpenLoadsIsSetOnceToTheMedianUntilThenOfWhoHasAsManyReplicas(t *testing.T) {
	r, _ := fake(t, options(t), steadyIdeal)
	for turn, rate := range []float64{60, 100, 20} {
		round := rundir.Round{Turn: turn, Measured: rundir.Measured{rundir.IdealObjects: rate, rundir.IdealConverge: 1}}
		if rate == 20 {
			round.Measured[rundir.IdealReplicas] = 1
		}
		if err := rundir.WriteRound(r.Dir, round); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		measured float64
		replicas int32
		want     float64
	}{{70, 0, 70}, {40, 1, 30}, {90, 0, 70}, {90, 1, 30}} {
		rate, err := r.ceiling(test.measured, test.replicas)
		if err != nil || rate != test.want {
			t.Errorf("the rate with %d replicas is %v: %v, want %v", test.replicas, rate, err, test.want)
		}
	}
	if err := replaceFile(filepath.Join(r.Dir, "ceiling.json"), []byte(`{"per_second": 5}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ceiling(80, 0); err == nil || !strings.Contains(err.Error(), "remove") {
		t.Errorf("a file without rates: %v", err)
	}
}

func TestANoteSaysWhoIsLeftOutOfTheLimitsOfTheMemory(t *testing.T) {
	o := options(t)
	o.Contenders = "bellerophon,kube-rs"
	for memory, want := range map[string]int{"": 0, "64Mi": 1} {
		o.Memory = memory
		chosen, err := o.complete()
		if err != nil {
			t.Fatal(err)
		}
		if notes := chosen.notes(); len(notes) != want || (want == 1 && !strings.HasPrefix(notes[0], "kube-rs ")) {
			t.Errorf("with --memory=%s the notes are %q", memory, notes)
		}
	}
}

func TestASweepIsOfTheFirstTwoTurnsAndWhoHasOneWorkerIsLeftOutOfMore(t *testing.T) {
	o := options(t)
	o.Contenders, o.Scenarios, o.Workers, o.Memory, o.Turns = "bellerophon,tutorial", "burst:n=5000", "1,8", "64Mi", 3
	chosen, err := o.complete()
	if err != nil {
		t.Fatal(err)
	}
	wanted := []string{"bellerophon default", "tutorial default", "bellerophon workers=1", "tutorial workers=1", "bellerophon workers=8", "bellerophon memory=64MiB", "tutorial memory=64MiB"}
	for turn, want := range [][]string{wanted, reversed(wanted), wanted[:2]} {
		var planned []string
		for _, p := range chosen.plan()[0].turns[turn] {
			planned = append(planned, p.Contender+" "+p.Setting)
		}
		if !slices.Equal(planned, want) {
			t.Errorf("turn %d is %q, want %q", turn, planned, want)
		}
	}
	if notes := strings.Join(chosen.notes(), "\n"); !strings.Contains(notes, "tutorial reconciles one object at a time") || !strings.Contains(notes, "more than 1000 of them, have no servers") {
		t.Errorf("the notes are %q", notes)
	}
}

func reversed(values []string) []string {
	turned := slices.Clone(values)
	slices.Reverse(turned)
	return turned
}

func TestANoteSaysWhatAContenderDoesNotMeet(t *testing.T) {
	o := options(t)
	o.Contenders = "bellerophon,quarkus"
	chosen, err := o.complete()
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(chosen.notes(), "\n"); !strings.Contains(notes, "quarkus does not meet check 3.6") || !strings.Contains(notes, "quarkus runs on a JVM") {
		t.Errorf("the notes are %q", notes)
	}
}
