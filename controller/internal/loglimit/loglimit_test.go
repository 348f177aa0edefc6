package loglimit_test

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/internal/loglimit"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newLimit(t testing.TB, rate int, report func(map[string]int)) *loglimit.Limit[string, string] {
	t.Helper()
	limit, err := loglimit.New[string, string](rate, prometheus.NewCounter(prometheus.CounterOpts{Name: "dropped"}), report)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

func TestGroupsAndSubjectsDoNotDisplaceOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = loglimit.DefaultRate
		limit := newLimit(t, rate, nil)
		admitted := 0
		for range 10 * rate {
			if limit.Admits("a", "same") {
				admitted++
			}
		}
		if admitted != rate/2+1 { // The first record repeats none.
			t.Errorf("%d records about one subject are admitted, want %d", admitted, rate/2+1)
		}
		for i := range 10 * rate {
			if limit.Admits("a", fmt.Sprint("other ", i)) {
				admitted++
			}
		}
		if admitted != rate {
			t.Errorf("%d records of one group are admitted, want %d", admitted, rate)
		}
		if !limit.Admits("b", "same") {
			t.Error("another group is left out")
		}
		<-time.After(time.Second)
		if !limit.Admits("a", "same") {
			t.Error("the next second starts with nothing")
		}
	})
}

func TestTheSmallestRateStillAdmitsARecordASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := newLimit(t, 1, nil)
		for second := range 3 {
			if !limit.Admits("a", "same") || limit.Admits("a", "same") || limit.Admits("a", "other") {
				t.Errorf("second %d does not admit exactly the first record", second)
			}
			<-time.After(time.Second)
		}
	})
}

// Whatever is logged, no second of the limit has more records of a group than the rate, and each record is either
// admitted or reported.
func TestNoRecordIsLostFromTheCount(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rate := rapid.IntRange(1, 6).Draw(r, "rate")
		steps := rapid.SliceOfN(rapid.IntRange(0, 19), 1, 200).Draw(r, "steps")
		synctest.Test(t, func(t *testing.T) {
			dropped := prometheus.NewCounter(prometheus.CounterOpts{Name: "dropped"})
			reported := map[string]int{}
			limit, err := loglimit.New[string, int](rate, dropped, func(left map[string]int) {
				for of, count := range left {
					reported[of] += count
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			group := lifecycle.New(t.Context())
			group.Go("limit", limit.Run)
			refused, admitted := map[string]int{}, map[string]int{}
			var began time.Time
			for _, step := range steps {
				if step == 19 {
					<-time.After(300 * time.Millisecond)
					continue
				}
				if now := time.Now(); now.Sub(began) >= time.Second {
					began = now
					clear(admitted)
				}
				of := fmt.Sprint("group ", step%2)
				if !limit.Admits(of, step/2) {
					refused[of]++
				} else if admitted[of]++; admitted[of] > rate {
					t.Errorf("%d records of %s are admitted in a second, with a rate of %d", admitted[of], of, rate)
				}
			}
			synctest.Wait()
			group.Stop()
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
			sum := 0
			for _, count := range reported {
				sum += count
			}
			if !maps.Equal(reported, refused) || int(testutil.ToFloat64(dropped)) != sum {
				t.Errorf("%v are refused, %v reported, and the metric is %v", refused, reported, testutil.ToFloat64(dropped))
			}
		})
	})
}

func TestTwoUsersOfARegistryShareTheMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	one, err := loglimit.Dropped(registry)
	if err != nil {
		t.Fatal(err)
	}
	two, err := loglimit.Dropped(registry)
	if err != nil || one != two {
		t.Errorf("they have two counters: %v", err)
	}
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "bellerophon_log_records_dropped_total", Help: "another"}))
	if _, err := loglimit.Dropped(taken); err == nil {
		t.Error("a metric of another kind with the name is no error")
	}
}

func BenchmarkAdmits(b *testing.B) {
	limit := newLimit(b, loglimit.DefaultRate, nil)
	for b.Loop() {
		limit.Admits("a", "same")
	}
}
