package controller_test

import (
	"context"
	"flag"
	"fmt"
	"math/bits"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"
)

var (
	oracleCount  = flag.Int("oracle", defaultOracle, "number of random schedules that check the levels")
	oracleTime   = flag.Duration("oracle-time", 0, "upper bound of the time for random schedules that check the levels; 0 is no bound")
	oracleReplay = flag.String("oracle-replay", "", "schedule to check the levels with, -oracle times, instead of random ones")
)

// oracleOptions holds the options of a manager and its server. Digits of the schedule select them.
type oracleOptions struct {
	window        time.Duration
	staleness     time.Duration
	slack         time.Duration // how long the network delays an event without a sign of it
	pages         int
	namespaces    []string
	server        sourcestest.Options
	metadata      bool // config maps are kept as metadata
	projects      bool // secrets are kept as a projection
	selects       bool // config maps are selected by a label
	ignoresEchoes bool
	deadline      time.Duration
	tokens        bool // the server demands a token
}

// oracleDigits holds the number of values of each digit.
var oracleDigits = [...]int{3, 4, 3, 3, 4, 4, 3}

func oracleOptionsOf(digits string) oracleOptions {
	digit := func(at int) int {
		if at >= len(digits) {
			return 0
		}
		return int(digits[at]) % 16 % oracleDigits[at]
	}
	made := oracleOptions{
		window:     []time.Duration{0, -1, 2 * time.Second}[digit(0)],
		staleness:  []time.Duration{90 * time.Second, 20 * time.Second, 10 * time.Minute, 2 * time.Second}[digit(1)],
		pages:      []int{0, 2, -1}[digit(2)],
		namespaces: [][]string{nil, {"x"}, {"x", "y", "z"}}[digit(3)],
		server:     []sourcestest.Options{{}, {NoBookmarks: true}, {History: 3}, {History: 3, NoBookmarks: true}}[digit(4)],
		metadata:   digit(5) == 1,
		projects:   digit(5) == 2,
		selects:    digit(5) == 3,
	}
	switch digit(6) {
	case 1:
		made.ignoresEchoes = true
	case 2:
		made.deadline = 45 * time.Second
	}
	return made
}

// consult runs a schedule in a synctest bubble. The end of the bubble checks that every goroutine
// has ended.
func consult(t *testing.T, text string) (err error) {
	digits, steps, _ := strings.Cut(text, "|")
	options := oracleOptionsOf(digits)
	if strings.ContainsRune(steps, oracleStepDelay) {
		options.slack = sourcestest.DefaultWait
	}
	options.tokens = strings.ContainsAny(steps, oracleTokens)
	synctest.Test(t, func(t *testing.T) {
		o, failed := newOracle(t, options)
		if err = failed; err != nil {
			return
		}
		err = o.live(steps)
		if ended := o.stop(); err == nil {
			err = ended
		}
	})
	if err != nil {
		return fmt.Errorf("schedule %q: %w", text, err)
	}
	return nil
}

func (o *oracle) live(steps string) error {
	if err := o.play(steps); err != nil || strings.ContainsRune(steps, oracleStepEnd) || o.isOver() {
		return err
	}
	return o.recover(steps)
}

// recover ends all faults. It checks that the level becomes Settled in time, and that the cache
// then matches the server.
func (o *oracle) recover(steps string) error {
	o.run()
	o.mu.Lock()
	o.ending = true
	o.release()
	o.server.Heal()
	if err := o.credentials.write(); err != nil {
		o.broken("writing the token: %w", err)
	}
	for _, kind := range o.kinds {
		o.install(kind, true)
	}
	o.mu.Unlock()
	// This is the time of a bookmark or a probe, and of three backoffs. The source backs off before it
	// reconnects, and before it lists what the probe has missed. A key backs off before its last retry.
	within := max(time.Minute, o.options.staleness*3/4) + 2*10*time.Second + oracleBackoff*12/10
	if strings.ContainsAny(steps, oracleHangs) {
		within += 70 * time.Second // A request that hangs times out.
	}
	if strings.ContainsAny(steps, oraclePatience) {
		within += 30 * time.Second // The server has sent Retry-After.
	}
	<-time.After(within)
	quiet := o.manager.Cache().Loop().QuietPeriod()
	if err := o.settle(quiet); err != nil {
		return fmt.Errorf("%v and a quiet period of %v after all faults ended: %w; pending: %q", within, quiet, err, o.manager.Cache().Pending(cache.Settled))
	}
	if o.isOver() {
		return nil
	}
	if err := o.check(); err != nil {
		return err
	}
	return o.checkEnd()
}

// settle waits for the level Settled, or the end of the manager.
func (o *oracle) settle(within time.Duration) error {
	ctx, cancel := context.WithTimeout(o.running.Context(), within)
	defer cancel()
	err := o.manager.Cache().Wait(ctx, cache.Settled)
	if o.running.Context().Err() != nil {
		synctest.Wait()
		o.over.Store(true)
		return nil
	}
	synctest.Wait()
	return err
}

// checkEnd checks that the cache holds what the server holds, and that no attempt fails any more.
func (o *oracle) checkEnd() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, thing := range o.things {
		if o.manager.Cache().Store(thing.kind.group) != nil && o.held[i] != thing.now() {
			o.broken("in the end %c is %q in the cache, and %q on the server", thing.letter, o.held[i], thing.now())
		}
	}
	for name, member := range o.members {
		for key, attempt := range member.attempts {
			if !member.leaving && attempt.failed && !attempt.terminal {
				o.broken("in the end %s of %s fails", key, name)
			}
		}
	}
	return o.wrong
}

func (o *oracle) isOver() bool { return o.over.Load() }

// stop ends the manager, and returns an error if it fails or takes too long.
func (o *oracle) stop() error {
	o.run()
	o.mu.Lock()
	o.release()
	o.mu.Unlock()
	began := time.Now()
	o.end()
	err := o.running.Wait()
	if took := time.Since(began); err == nil && took > oracleGrace+time.Second {
		err = fmt.Errorf("the manager took %v to end", took)
	}
	o.group.Stop()
	_ = o.group.Wait()
	return err
}

func newGroup(ctx context.Context) *lifecycle.Group { return lifecycle.New(ctx) }

func atStep(at int, step rune, err error) error {
	return fmt.Errorf("after step %d, %c: %w", at, step, err)
}

// evenly returns a generator of 0 to values-1, each about as likely as the others. The generators
// of rapid prefer small values.
func evenly(values int) *rapid.Generator[int] {
	return rapid.Custom(func(rt *rapid.T) int {
		drawn := 0
		for bits := bits.Len(uint(values)) + 2; bits > 0; bits-- {
			drawn *= 2
			if rapid.Bool().Draw(rt, "bit") {
				drawn++
			}
		}
		return drawn % values
	})
}

// drawnOracle draws a random schedule. It need not draw short or uniform schedules: rapid finds them
// when it shrinks one that fails.
func drawnOracle(rt *rapid.T) string {
	var text strings.Builder
	for i, values := range oracleDigits {
		value := evenly(values).Draw(rt, fmt.Sprint("option ", i))
		if i == 1 && value == 3 && !rapid.Bool().Draw(rt, "short") {
			value = 0 // With the shortest bound, the server is probed every 1.5 s, which makes the schedule slow.
		}
		text.WriteByte('0' + byte(value))
	}
	text.WriteByte('|')
	for _, step := range rapid.SliceOfN(evenly(len(oracleLikely)), 5, 25).Draw(rt, "steps") {
		text.WriteByte(oracleLikely[step])
	}
	if evenly(20).Draw(rt, "end") == 1 {
		text.WriteByte(oracleStepEnd)
	}
	return text.String()
}

// oracleLikely holds the steps to draw from, the likely ones several times.
const oracleLikely = "abcdefghijklABCDEFGHIJKL'12:349!5678=0mMpor.-_~^NQOSRUuZTVW\";nqstvzwxy$%&*/<>+()[]{}@#YP," + "aaabbbeeeiiAE112!..........-------____~+++rrrrNR"

func TestNoLevelPromisesTooMuchWhateverHappens(t *testing.T) {
	klog.SetSlogLogger(noLog) // All log messages are expected here.
	if *oracleReplay != "" {
		for range *oracleCount {
			if err := consult(t, *oracleReplay); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	percent := debug.SetGCPercent(400)
	t.Cleanup(func() { debug.SetGCPercent(percent) }) // The parts run after this function.
	began := time.Now()
	const parts = 2
	withChecks(t, *oracleCount/parts)
	for part := range parts {
		t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				for range part { // Otherwise parts with one -rapid.seed draw the same schedules.
					rapid.Uint64().Draw(rt, "part")
				}
				text := drawnOracle(rt)
				if *oracleTime > 0 && time.Since(began) > *oracleTime {
					return
				}
				if err := consult(t, text); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

func FuzzNoLevelPromisesTooMuch(f *testing.F) {
	klog.SetSlogLogger(noLog)
	f.Fuzz(func(t *testing.T, text string) {
		digits, steps, _ := strings.Cut(text[:min(len(text), 100)], "|")
		var known strings.Builder
		for _, char := range []byte(steps) {
			if strings.IndexByte(oracleSteps, char) < 0 {
				char = oracleSteps[int(char)%len(oracleSteps)]
			}
			known.WriteByte(char)
		}
		if err := consult(t, digits+"|"+known.String()); err != nil {
			t.Fatal(err)
		}
	})
}
