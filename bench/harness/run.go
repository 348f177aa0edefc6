package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bench/conformance"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/outcome"
	"github.com/bellerophon-io/bellerophon/bench/probe"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

// repeats is how often a round that was rejected is made again.
const repeats = 2

// run is a run of the comparison.
type run struct {
	*choice
	show       *progress
	programs   map[string]*contender.Program
	prometheus *prometheusServer
	usage      *usage
	paths      map[string]string                                                // of contenders' metrics, where known
	began      time.Time                                                        // the first round
	longest    time.Duration                                                    // round so far
	unmade     map[string]error                                                 // what could not be made for rounds to find
	finding    func(context.Context, planned) (string, error)                   // makes the data that a round finds, if it is not there
	measured   func(context.Context, planned, string) (outcome.Measured, error) // measures a round, with data of a cluster

	// checked runs the conformance suite against a contender, and calls the function with
	// the title of each check.
	checked func(context.Context, *contender.Program, func(title string)) (*conformance.Report, error)
}

// Run makes all rounds that are not there yet, and shows how far it is. rules are
// recording rules for Prometheus. The error says what kept the run from going on; rounds
// that failed or were rejected are no error.
func Run(ctx context.Context, options Options, rules []byte, out *screen.Screen) (err error) {
	chosen, err := options.complete()
	if err != nil {
		return err
	}
	r := &run{choice: chosen, show: newProgress(out), programs: map[string]*contender.Program{}, paths: map[string]string{}, unmade: map[string]error{}}
	r.finding, r.measured, r.checked = r.found, r.measure, r.check
	skipped, err := r.build(ctx, out)
	if err != nil {
		return err
	}
	if err := r.leaveOutUnfit(ctx, skipped, out); err != nil {
		return err
	}
	if err := r.begin(skipped); err != nil {
		return err
	}
	if r.usage, err = newUsage(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.usage.close()) }()
	if r.prometheus, err = startPrometheus(ctx, r.Dir, rules, r.usage.address); err != nil {
		return err
	}
	if r.prometheus == nil {
		out.Println("Prometheus is not installed, so this run has no time series; install it (Debian: apt-get install prometheus) for them")
	} else {
		out.Println("Prometheus is at " + r.prometheus.url)
		defer func() { err = errors.Join(err, r.prometheus.stop()) }()
	}
	r.began = time.Now()
	r.show.began, r.show.limit = r.began, r.Limit // What was built is not in the estimate.
	if err := r.rounds(ctx); err != nil {
		if errors.Is(err, errLimit) {
			out.Println(fmt.Sprintf("no other round would be over within %v; the same command goes on with those that are missing", r.Limit))
			return r.show.end(r.Dir)
		}
		return fmt.Errorf("the run was stopped: %w; the same command goes on with the rounds that are missing", err)
	}
	return r.show.end(r.Dir)
}

// errLimit says that there is no time for another round.
var errLimit = errors.New("the limit is reached")

// rounds makes all rounds, and then again those that were rejected, in turns of their own.
func (r *run) rounds(ctx context.Context) error {
	groups := r.plan()
	for _, g := range groups {
		r.show.expect(g.turns)
	}
	// One turn of all scenarios before the next: who ends early has some of each.
	for turn := range r.Turns {
		for _, g := range groups {
			if err := r.turn(ctx, g.turns[turn]); err != nil {
				return errors.Join(err, r.judgeAll(groups))
			}
		}
	}
	for attempt := range repeats {
		for _, g := range groups {
			lacking, err := r.judge(g)
			if err != nil {
				return err
			}
			turns := r.again(g, lacking, attempt)
			r.show.expect(turns)
			for _, turn := range turns {
				if err := r.turn(ctx, turn); err != nil {
					return errors.Join(err, r.judgeAll(groups))
				}
			}
		}
	}
	return r.judgeAll(groups)
}

func (r *run) judgeAll(groups []group) error {
	for _, g := range groups {
		if _, err := r.judge(g); err != nil {
			return err
		}
	}
	return nil
}

// build builds the control plane and the contenders, and leaves out those whose toolchain
// is missing or too old.
func (r *run) build(ctx context.Context, out *screen.Screen) (skipped map[string]string, err error) {
	if err := localcluster.Build(ctx, localcluster.Options{Progress: screen.Progress(out)}); err != nil {
		return nil, err
	}
	skipped = map[string]string{}
	var there []contender.Contender
	for _, c := range r.contenders {
		missing := c.Missing(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if missing != "" {
			skipped[c.Name] = missing
			out.Println(missing)
			continue
		}
		out.Live("building " + c.Name)
		program, err := c.Build(ctx, r.Log)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			skipped[c.Name] = err.Error()
			out.Println(c.Name + " is left out: " + err.Error())
			continue
		}
		r.programs[c.Name] = program
		there = append(there, c)
	}
	out.Live()
	r.contenders = there
	if len(there) == 0 {
		return nil, errors.New("no contender can run on this machine; the lines above say what each needs")
	}
	return skipped, nil
}

// begin writes what is run, unless it is there: then it has to be the same, but for
// contenders that are left out from now on, those that are not any more, and more turns.
func (r *run) begin(skipped map[string]string) error {
	described := outcome.Run{
		Started: time.Now(), Machine: probe.Machine(), Versions: map[string]string{"Go": runtime.Version()}, Resync: resyncs(r.contenders), Notes: r.notes(),
		Builds: map[string]string{}, Skipped: skipped, Turns: r.Turns, Flags: r.flags(),
	}
	described.Machine["etcd"] = "does not sync its data to disk"
	for _, c := range r.contenders {
		described.Contenders = append(described.Contenders, c.Name)
		described.Versions[c.Name] = r.programs[c.Name].Version
		described.Builds[c.Name] = r.programs[c.Name].Identity
	}
	for _, s := range r.scenarios {
		described.Scenarios = append(described.Scenarios, s.Name+" "+s.String())
	}
	before, err := outcome.ReadRun(r.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return outcome.WriteRun(r.Dir, described)
	case err != nil:
		return err
	case !slices.Equal(lasting(before.Flags), lasting(described.Flags)) || r.Turns < before.Turns:
		return fmt.Errorf("--out %s has a run with other flags, %q; to go on with it, only --contenders may differ, and --turns be more; or give another folder",
			r.Dir, before.Flags)
	}
	before.Turns = r.Turns
	before.Skipped = alsoSkipped(before.Skipped, skipped, described.Contenders)
	for _, note := range described.Notes {
		if !slices.Contains(before.Notes, note) {
			before.Notes = append(before.Notes, note)
		}
	}
	for _, name := range described.Contenders {
		if was := before.Builds[name]; was != "" && was != described.Builds[name] {
			return fmt.Errorf("--out %s has rounds of another build of %s, %s, and medians would mix them; give another folder, or leave it out with --contenders",
				r.Dir, name, before.Versions[name])
		}
		if !slices.Contains(before.Contenders, name) {
			before.Contenders = append(before.Contenders, name)
			before.Versions[name], before.Builds[name], before.Resync[name] = described.Versions[name], described.Builds[name], described.Resync[name]
		}
	}
	before.Flags = described.Flags
	if r.Options.Contenders != "all" {
		before.Flags[0] = contendersFlag + strings.Join(before.Contenders, ",")
	}
	return outcome.WriteRun(r.Dir, before)
}

// alsoSkipped are the contenders that were left out before, but for those that are there by now,
// and those that are left out by now.
func alsoSkipped(before, now map[string]string, there []string) map[string]string {
	skipped := map[string]string{}
	maps.Copy(skipped, before)
	for _, name := range there {
		delete(skipped, name)
	}
	maps.Copy(skipped, now)
	return skipped
}

const (
	contendersFlag = "--contenders="
	turnsFlag      = "--turns="
)

// lasting leaves out the flags that may change while a run goes on.
func lasting(flags []string) []string {
	return slices.DeleteFunc(slices.Clone(flags), func(flag string) bool {
		return strings.HasPrefix(flag, contendersFlag) || strings.HasPrefix(flag, turnsFlag)
	})
}

// flags are those that repeat the run, the contenders first.
func (r *run) flags() []string {
	flags := []string{contendersFlag + r.Options.Contenders, "--scenarios=" + r.Options.Scenarios, fmt.Sprint(turnsFlag, r.Turns), fmt.Sprint("--ideal=", r.Ideal),
		fmt.Sprint("--tolerance=", r.Tolerance)}
	if r.Workers != "" {
		flags = append(flags, "--workers="+r.Workers)
	}
	if r.Memory != "" {
		flags = append(flags, "--memory="+r.Memory)
	}
	if r.Conformance == skipConformance {
		flags = append(flags, "--conformance="+skipConformance)
	}
	if r.Full {
		flags = append(flags, "--full")
	}
	if r.Warm {
		flags = append(flags, "--warm")
	}
	return flags
}

func (r *run) turn(ctx context.Context, turn []planned) error {
	for _, planned := range turn {
		if err := r.unlessDone(ctx, planned); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) unlessDone(ctx context.Context, p planned) error {
	if outcome.Done(r.Dir, p.Round) {
		r.show.done++
		return nil
	}
	if r.isLate() {
		return errLimit
	}
	r.show.begin(p)
	round, err := r.round(ctx, p)
	if err != nil {
		return err
	}
	r.longest = max(r.longest, round.End.Sub(round.Start))
	if err := outcome.WriteRound(r.Dir, round); err != nil {
		return err
	}
	r.show.over(round)
	return nil
}

// isLate says that there is no time for another round.
func (r *run) isLate() bool { return r.Limit > 0 && time.Since(r.began)+r.longest > r.Limit }

// judge judges the rounds of a group, and says how many more each measurement needs.
func (r *run) judge(g group) (map[ran]int, error) {
	rounds, err := outcome.ReadRounds(r.Dir)
	if err != nil {
		return nil, err
	}
	var held []outcome.Round
	for _, round := range rounds {
		if round.Scenario == g.scenario.Name && round.Variant == g.scenario.String() {
			held = append(held, round)
		}
	}
	wanted := map[ran]int{}
	for _, turn := range g.turns {
		for _, p := range turn {
			wanted[ranOf(p.Round)]++
		}
	}
	judged, lacking := calmOf(rounds, r.Tolerance).judge(held, wanted)
	for i, round := range judged {
		if round.Rejected == held[i].Rejected && round.Noisy == held[i].Noisy {
			continue
		}
		if err := outcome.WriteRound(r.Dir, round); err != nil {
			return nil, err
		}
		r.show.judged(round)
	}
	return lacking, nil
}

// again plans what is lacking, in turns after all that were.
func (r *run) again(g group, lacking map[ran]int, attempt int) [][]planned {
	var turns [][]planned
	for extra := range r.Turns {
		var turn []planned
		for _, p := range r.wayThrough(g.scenario, r.Turns*(attempt+1)+extra, g.scenario.Swept) {
			if lacking[ranOf(p.Round)] > extra {
				turn = append(turn, p)
			}
		}
		turns = append(turns, turn)
	}
	return turns
}

// ceiling is the rate of the ideal client that all open loads of the run are a share of whose
// objects have as many replicas. The first round with one sets it, to the median of what was
// measured until then.
func (r *run) ceiling(measured float64, replicas int32) (float64, error) {
	held := struct {
		PerSecond map[string]float64 `json:"per_second"` // by the number of replicas
	}{map[string]float64{}}
	path := filepath.Join(r.Dir, "ceiling.json")
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &held)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("reading the rates of the ideal client: %w; remove %s, and the next round writes it", err, path)
	}
	key := strconv.Itoa(int(replicas))
	if rate := held.PerSecond[key]; rate > 0 {
		return rate, nil
	}
	rounds, err := outcome.ReadRounds(r.Dir)
	if err != nil {
		return 0, err
	}
	rates := []float64{measured}
	for _, round := range rounds {
		time := round.Measured[outcome.IdealConverge]
		if time > 0 && round.Measured[outcome.IdealReplicas] == float64(replicas) && round.Measured[outcome.IdealAmong] == 0 {
			rates = append(rates, round.Measured[outcome.IdealObjects]/time)
		}
	}
	held.PerSecond[key] = outcome.Median(rates)
	if content, err = json.Marshal(held); err != nil {
		return 0, err
	}
	return held.PerSecond[key], replaceFile(path, content, 0o644)
}

func serverAddress(host string) (string, error) {
	server, err := url.Parse(host)
	if err != nil {
		return "", fmt.Errorf("reading the address of the API server: %w", err)
	}
	return server.Host, nil
}
