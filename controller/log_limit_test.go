package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/internal/loglimit"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// maxRecords is the bound of each message about failures in a second.
const maxRecords = loglimit.DefaultRate

// storm runs a manager whose reconciles end as fail says. Its log stays readable after stop.
type storm struct {
	t        *testing.T
	server   *sourcestest.Server
	log      logRecords
	manager  *Manager
	failures int // read it after stop
	stop     func()
}

func newStorm(t *testing.T, objects int, handler func(slog.Handler) slog.Handler, fail operators.Reconciler, options ...func(*Options)) *storm {
	t.Helper()
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &storm{t: t, server: server, log: newLogRecords()}
	for i := range objects {
		s.create(fmt.Sprint("map-", i))
	}
	made := Options{
		Logger: slog.New(handler(s.log)), Backoff: operators.Backoff{First: 100 * time.Millisecond, Max: time.Second},
		OnResult: func(result operators.Result) {
			if result.Err != nil {
				s.failures++
			}
		},
	}
	for _, option := range options {
		option(&made)
	}
	if s.manager, err = NewManager(server.Config(), scheme.Scheme, made); err != nil {
		t.Fatal(err)
	}
	if err := s.manager.Add("maps", fail, For(&corev1.ConfigMap{})); err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("manager", s.manager.Run)
	s.stop = func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}
	return s
}

func (s *storm) create(name string) {
	s.t.Helper()
	if err := s.server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}); err != nil {
		s.t.Fatal(err)
	}
}

// left adds up what the summaries say.
func (s *storm) left() (sum int) {
	for _, summary := range s.log.saying("records of a message were left out") {
		sum += int(summary.of("dropped").Int64())
	}
	return sum
}

func asItIs(handler slog.Handler) slog.Handler { return handler }

func TestAThousandFailingObjectsWriteABoundedNumberOfRecordsAndLoseNone(t *testing.T) {
	for message, fail := range map[string]operators.Reconciler{
		"reconcile failed":   func(context.Context, operators.Request) (time.Duration, error) { return 0, errors.New("no") },
		"reconcile panicked": func(context.Context, operators.Request) (time.Duration, error) { panic("no") },
	} {
		t.Run(message, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStorm(t, 1000, asItIs, fail)
				const storm = 30 * time.Second
				<-time.After(storm)
				s.create("another")
				<-time.After(time.Second)
				s.stop()
				written, perSecond, first := s.log.saying(message), map[time.Duration]int{}, map[string]int{}
				for _, record := range written {
					perSecond[record.time.Sub(written[0].time)/time.Second]++
					first[record.of("name").String()]++
				}
				for second, count := range perSecond {
					if count > 2*maxRecords { // Its seconds may overlap two of the limit.
						t.Errorf("%d records are in second %d", count, second)
					}
				}
				if most := maxRecords * (len(perSecond) + 1); len(written) > most || len(written) < maxRecords/2*len(perSecond)/2 {
					t.Errorf("%d records are written in %d seconds, want at most %d", len(written), len(perSecond), most)
				}
				if len(first) != 1001 || first["another"] == 0 {
					t.Errorf("%d of 1001 objects have a record, and the one that came last has %d", len(first), first["another"])
				}
				if got := len(written) + s.left(); got != s.failures || s.failures < 10_000 {
					t.Errorf("%d records are written or counted as left out, of %d failures", got, s.failures)
				}
				if got := testutil.ToFloat64(s.manager.metrics.dropped); int(got) != s.left() {
					t.Errorf("the metric is %v, and the summaries add up to %d", got, s.left())
				}
				if summaries := len(s.log.saying("records of a message were left out")); summaries > int(storm/time.Second)+3 {
					t.Errorf("%d summaries are written in %v", summaries, storm)
				}
			})
		})
	}
}

func TestRecordsThatTheLevelHidesAreNotLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStorm(t, 200, onlyErrors, func(context.Context, operators.Request) (time.Duration, error) { return 0, errors.New("no") })
		<-time.After(5 * time.Second)
		s.stop()
		if got := testutil.ToFloat64(s.manager.metrics.dropped); got != 0 || len(s.log.everything()) != 0 {
			t.Errorf("%v records are left out of a log with %v", got, s.log.everything())
		}
	})
}

func TestSuccessesAtLevelDebugHaveNoBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStorm(t, 3*maxRecords, asItIs, func(context.Context, operators.Request) (time.Duration, error) { return 0, nil })
		<-time.After(time.Second)
		s.stop()
		if got := len(s.log.saying("reconciled")); got != 3*maxRecords || s.left() != 0 {
			t.Errorf("%d of %d successes have a record, and %d are left out", got, 3*maxRecords, s.left())
		}
	})
}

// A summary is due although nothing fails any more.
func TestTheSummaryComesAfterASecondWithoutAnotherFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStorm(t, 3*maxRecords, asItIs, func(context.Context, operators.Request) (time.Duration, error) {
			return 0, operators.Terminal(errors.New("no"))
		})
		<-time.After(2 * time.Second)
		if got := s.left(); got != 2*maxRecords {
			t.Errorf("the summaries have %d records, want %d", got, 2*maxRecords)
		}
		s.stop()
	})
}

// onlyErrors hides the levels below Error.
func onlyErrors(handler slog.Handler) slog.Handler { return errorsAlone{handler} }

type errorsAlone struct{ slog.Handler }

func (errorsAlone) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (e errorsAlone) WithAttrs(attributes []slog.Attr) slog.Handler {
	return errorsAlone{e.Handler.WithAttrs(attributes)}
}
