package controller

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/rest"
)

// logLoop returns a reconciler that logs in a hot loop about one object: n records in each 10 ms, for some seconds.
// Near the end it logs an error, once. It logs once about each other object.
func logLoop(n, seconds int, say func(log *slog.Logger, i int)) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		log := Logger(ctx)
		if request.Name != "map-0" {
			log.Info("reconciling", "shape", "round")
			return 0, nil
		}
		for round := range 100 * seconds {
			for i := range n {
				say(log, i)
			}
			if round == 90*seconds {
				log.WithGroup("found").Error("it is broken", "size", 1)
			}
			<-time.After(10 * time.Millisecond)
		}
		return 0, nil
	}
}

func TestAReconcilerThatLogsInAHotLoopIsBoundedAndHidesNothingElse(t *testing.T) {
	for name, test := range map[string]struct {
		say  func(log *slog.Logger, i int)
		most int // records a second
	}{
		"one message":        {func(log *slog.Logger, _ int) { log.Info("looping") }, maxRecords/2 + 1},
		"one logger a time":  {func(log *slog.Logger, i int) { log.With("i", i).WithGroup("g").Warn("looping") }, maxRecords/2 + 1},
		"errors":             {func(log *slog.Logger, _ int) { log.Error("looping") }, maxRecords/2 + 1},
		"a message per loop": {func(log *slog.Logger, i int) { log.Info(fmt.Sprint("looping ", i, rand.Text())) }, maxRecords},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const objects, burst, seconds = 500, 100, 10
				s := newStorm(t, objects, asItIs, logLoop(burst, seconds, test.say))
				<-time.After((seconds + 2) * time.Second)
				s.stop()
				loops, summaries, dropped := 0, s.log.saying("records of a reconciler were left out"), 0
				for _, record := range s.log.everything() {
					if strings.HasPrefix(record.message, "looping") {
						loops++
					}
				}
				for _, summary := range summaries {
					dropped += int(summary.of("dropped").Int64())
					if summary.of("controller").String() != "maps" || summary.of("namespace").String() != "a" || summary.of("name").String() != "map-0" || summary.of("objects").Int64() != 1 {
						t.Errorf("a summary has %v", summary.attributes)
					}
				}
				if most := test.most * (seconds + 1); loops > most || loops < maxRecords/2*seconds {
					t.Errorf("%d records are written in %d seconds, want at most %d", loops, seconds, most)
				}
				if got := len(s.log.saying("reconciling")); got != objects-1 {
					t.Errorf("%d of %d other objects have a record", got, objects-1)
				}
				broken := s.log.saying("it is broken")
				if test.most < maxRecords && (len(broken) != 1 || broken[0].level != slog.LevelError) {
					t.Errorf("the records that it is broken are %v", broken)
				}
				if all := loops + dropped + len(broken); all != burst*seconds*100+1 {
					t.Errorf("%d records are written or counted as left out, of %d", all, burst*seconds*100+1)
				}
				if got := testutil.ToFloat64(s.manager.metrics.dropped); int(got) != dropped || len(summaries) > seconds+1 {
					t.Errorf("the metric is %v, and %d summaries add up to %d", got, len(summaries), dropped)
				}
			})
		})
	}
}

func TestTheBoundOfReconcilersIsAnOption(t *testing.T) {
	for name, test := range map[string]struct {
		rate, want int
		say        func(log *slog.Logger, i int)
	}{
		"1 a second":         {1, 1, func(log *slog.Logger, _ int) { log.Info("looping") }},
		"20 a second":        {20, 11, func(log *slog.Logger, _ int) { log.Info("looping") }},
		"no bound":           {-1, 1000, func(log *slog.Logger, _ int) { log.Info("looping") }},
		"none at debug":      {1, 1000, func(log *slog.Logger, _ int) { log.Debug("looping") }},
		"none below the top": {100_000, 1000, func(log *slog.Logger, _ int) { log.Info("looping") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStorm(t, 1, asItIs, logLoop(10, 1, test.say), func(options *Options) { options.LogRate = test.rate })
				<-time.After(3 * time.Second)
				s.stop()
				if got := len(s.log.saying("looping")); got != test.want {
					t.Errorf("%d records are written in a second, want %d", got, test.want)
				}
			})
		})
	}
	if _, err := NewManager(&rest.Config{}, nil, Options{LogRate: 100_001}); err == nil || !strings.Contains(err.Error(), "LogRate is 100001; allowed is 1 to 100000") {
		t.Errorf("a rate out of its range is answered with %v", err)
	}
}

// A record a second for each controller is enough, however many of its objects write too much.
func TestManyObjectsThatLogTooMuchHaveOneSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 2000
		s := newStorm(t, objects, asItIs, func(ctx context.Context, request operators.Request) (time.Duration, error) {
			for range 3 {
				Logger(ctx).Info("looping")
			}
			if request.Name == "map-7" {
				Logger(ctx).Info("looping")
			}
			return 0, nil
		}, func(options *Options) { options.LogRate = 2 })
		<-time.After(3 * time.Second)
		s.stop()
		var got string
		for _, summary := range s.log.saying("records of a reconciler were left out") {
			got += fmt.Sprintf("%v %v %v;", summary.of("dropped"), summary.of("objects"), summary.of("name"))
		}
		if want := fmt.Sprintf("%d %d map-7;", objects+1, objects); got != want {
			t.Errorf("the summaries are %s want %s", got, want)
		}
	})
}
