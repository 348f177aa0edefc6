package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen/steps"
	"github.com/bellerophon-io/bellerophon/bench/conformance"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

// repeats is how often a rejected round is repeated.
const repeats = 2

// run is a run of the comparison.
type run struct {
	*choice
	show       *progress
	programs   map[string]*contender.Program
	kinds      map[string]*contender.Program // the programs with many kinds, of the contenders that have one
	prometheus *prometheusServer
	usage      *usage
	paths      map[string]string                                           // of the contenders' metrics, as far as they are known
	began      time.Time                                                   // when the first round began
	longest    time.Duration                                               // the longest round so far
	unmade     map[string]error                                            // why cluster data could not be made, by its folder
	finding    func(context.Context, planned) (string, error)              // returns the cluster data of a round, and makes it if it does not exist
	measured   func(context.Context, planned, string) (measurement, error) // measures a round that starts with cluster data

	// checked runs the conformance suite against a contender. It calls the function before each
	// check with its title.
	checked func(context.Context, *contender.Program, func(title string)) (*conformance.Report, error)
}

// Run makes all missing rounds and shows its progress. rules are recording rules for Prometheus.
// Run returns an error if the run had to stop; a failed or rejected round is not an error.
func Run(ctx context.Context, options Options, rules []byte, out *screen.Screen) (err error) {
	chosen, err := options.complete()
	if err != nil {
		return err
	}
	r := &run{choice: chosen, show: newProgress(out), programs: map[string]*contender.Program{}, kinds: map[string]*contender.Program{}, paths: map[string]string{}, unmade: map[string]error{}}
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
	restore, err := r.leaveCores()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	if r.usage, err = newUsage(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.usage.close()) }()
	if r.prometheus, err = startPrometheus(ctx, r.Dir, rules, r.usage.address); err != nil {
		return err
	}
	if r.prometheus == nil {
		out.Println("Prometheus is not installed, so this run records no time series; to get them, install it (Debian: apt-get install prometheus)")
	} else {
		out.Println("Prometheus: " + r.prometheus.url)
		defer func() { err = errors.Join(err, r.prometheus.stop()) }()
	}
	r.began = time.Now()
	r.show.began, r.show.limit = r.began, r.Limit // The estimate is without the builds and the checks.
	if err := r.rounds(ctx); err != nil {
		if errors.Is(err, errLimit) {
			out.Println(fmt.Sprintf("no further round would end within %v; start the same command again for the missing rounds", r.Limit))
			return r.show.end(r.Dir)
		}
		return fmt.Errorf("running the rounds: %w; start the same command again for the missing rounds", err)
	}
	return r.show.end(r.Dir)
}

// errLimit means that there is no time for another round.
var errLimit = errors.New("the limit is reached")

// rounds makes all rounds, and then repeats the rejected ones in additional turns.
func (r *run) rounds(ctx context.Context) error {
	groups := r.plan()
	for _, g := range groups {
		r.show.expect(g.turns)
	}
	// One turn covers all scenarios before the next starts. So a run that ends early has rounds of
	// each scenario.
	for turn := range r.Turns {
		for i, g := range groups {
			if turn >= len(g.turns) {
				continue
			}
			narrow, err := r.isNarrow(g, turn)
			if err != nil {
				return err
			}
			if narrow {
				r.show.unexpect(g.turns[turn:])
				groups[i].turns = g.turns[:turn]
				continue
			}
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

// build builds the control plane and the contenders. It leaves out contenders whose toolchain is
// missing or too old, or whose build fails.
func (r *run) build(ctx context.Context, out *screen.Screen) (skipped map[string]string, err error) {
	if err := localcluster.Build(ctx, localcluster.Options{Progress: steps.On(out)}); err != nil {
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
		err := r.buildPrograms(ctx, c)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			skipped[c.Name] = err.Error()
			out.Println(c.Name + " is left out: " + err.Error())
			continue
		}
		there = append(there, c)
	}
	out.Live()
	r.contenders = there
	if len(there) == 0 {
		return nil, errors.New("no contender can run on this machine; the lines above say what each needs")
	}
	return skipped, nil
}

// buildPrograms builds the programs of a contender that the scenarios need.
func (r *run) buildPrograms(ctx context.Context, c contender.Contender) (err error) {
	if r.programs[c.Name], err = c.Build(ctx, r.Log); err != nil {
		return err
	}
	if r.hasManyKinds() && c.NoKinds == "" {
		r.kinds[c.Name], err = c.WithKinds().Build(ctx, r.Log)
	}
	return err
}

// identityOf returns the identity of the programs of a contender. It changes if one of them does.
func (r *run) identityOf(name string) string {
	identity := r.programs[name].Identity
	if of := r.kinds[name]; of != nil {
		identity += " " + of.Identity
	}
	return identity
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
	if rundir.Done(r.Dir, p.Round) {
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
	if err := rundir.WriteRound(r.Dir, round); err != nil {
		return err
	}
	r.show.over(round)
	return nil
}

// isLate reports whether there is no time for another round.
func (r *run) isLate() bool { return r.Limit > 0 && time.Since(r.began)+r.longest > r.Limit }

// judge judges the rounds of a group, writes the changed ones, and returns how many more rounds
// each measurement needs.
func (r *run) judge(g group) (map[series]int, error) {
	rounds, err := rundir.ReadRounds(r.Dir)
	if err != nil {
		return nil, err
	}
	var held []rundir.Round
	for _, round := range rounds {
		if round.Scenario == g.scenario.Name && round.Variant == g.scenario.String() {
			held = append(held, round)
		}
	}
	wanted := map[series]int{}
	for _, turn := range g.turns {
		for _, p := range turn {
			wanted[seriesOf(p.Round)]++
		}
	}
	judged, lacking := idealTimesOf(rounds, r.Tolerance).judge(held, wanted)
	for i, round := range judged {
		if round.Rejected == held[i].Rejected && round.Noisy == held[i].Noisy {
			continue
		}
		if err := rundir.WriteRound(r.Dir, round); err != nil {
			return nil, err
		}
		r.show.judged(round)
	}
	return lacking, nil
}

// again plans the lacking rounds, in turns with higher numbers than all earlier ones. All contenders take
// part with the setting that one of them lacks, so that each turn has both sides of a ratio, in its order.
func (r *run) again(g group, lacking map[series]int, attempt int) [][]planned {
	type sort struct {
		setting string
		warm    bool
	}
	most := map[sort]int{}
	for of, count := range lacking {
		most[sort{of.setting, of.warm}] = max(most[sort{of.setting, of.warm}], count)
	}
	var turns [][]planned
	for extra := range r.Turns {
		var turn []planned
		for _, p := range r.wayThrough(g.scenario, r.Turns*(attempt+1)+extra, g.scenario.Swept) {
			if most[sort{p.Setting, p.Warm}] > extra {
				turn = append(turn, p)
			}
		}
		turns = append(turns, turn)
	}
	return turns
}

// ceiling returns the rate of the ideal client for objects with the given number of replicas. All
// open loads of the run with such objects are a share of it. The first round with such a load fixes
// the rate to the median of the rates so far, including measured.
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
		return 0, fmt.Errorf("reading the rates of the ideal client: %w; remove %s, and the next round writes it again", err, path)
	}
	key := strconv.Itoa(int(replicas))
	if rate := held.PerSecond[key]; rate > 0 {
		return rate, nil
	}
	rounds, err := rundir.ReadRounds(r.Dir)
	if err != nil {
		return 0, err
	}
	rates := []float64{measured}
	for _, round := range rounds {
		time := round.Measured[rundir.IdealConverge]
		if time > 0 && round.Measured[rundir.IdealReplicas] == float64(replicas) && round.Measured[rundir.IdealAmong] == 0 {
			rates = append(rates, round.Measured[rundir.IdealObjects]/time)
		}
	}
	held.PerSecond[key] = rundir.Median(rates)
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
