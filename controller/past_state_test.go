package controller

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/controller/page"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestTheRecordedPastHasTheLevelsQueuesAndStagesOfItsTime(t *testing.T) {
	dir := t.TempDir()
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	manager, err := NewManager(server.Config(), scheme.Scheme, Options{
		Workers: 1, Logger: slog.New(slog.DiscardHandler), Recording: &recording.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatal(err)
	}
	leave := make(chan struct{})
	if err := manager.Add("slow", func(ctx context.Context, _ operators.Request) (time.Duration, error) {
		select {
		case <-leave:
		case <-ctx.Done():
		}
		return 0, nil
	}, For(&corev1.Secret{})); err != nil {
		t.Fatal(err)
	}
	stop := runToTheEnd(t, manager)
	if err := manager.Cache().Wait(t.Context(), cache.Settled); err != nil {
		t.Fatal(err)
	}
	until := func(what string, holds func(introspection.State) bool) (at int64) {
		t.Helper()
		for began := time.Now(); !holds(manager.introspection(0)); <-time.After(5 * time.Millisecond) {
			if time.Since(began) > 10*time.Second {
				t.Fatalf("it never comes: %s: %+v", what, manager.introspection(0))
			}
		}
		<-time.After(2 * recordedStateEvery) // So far, the recording has it.
		return time.Now().UnixMilli()
	}
	quiet := until("the highest level", func(s introspection.State) bool { return s.Level == cache.Converged })
	for i := range 5 {
		if err := server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("secret-", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	busy := until("a queue of four", func(s introspection.State) bool {
		return s.Controllers[0].Queued == 4 && len(s.Controllers[0].InFlight) == 1
	})
	close(leave)
	done := until("the end of all attempts", func(s introspection.State) bool { return s.Controllers[0].Attempts == 5 })
	stop()
	untilWhole(t, dir)

	get := served(t, page.NewPast(dir, scheme.Scheme, false))
	stateAt := func(at int64) introspection.State {
		t.Helper()
		past, text := read[struct{ Manager *introspection.State }](t, get, fmt.Sprintf("/debug/past/state?at=%d", at))
		if past.Manager == nil || len(past.Manager.Controllers) != 1 || len(past.Manager.Stages) == 0 || past.Manager.Time.UnixMilli() > at {
			t.Fatalf("the state is %s", text)
		}
		return *past.Manager
	}
	for at, want := range map[int64]struct {
		queued    int64
		inFlight  int
		attempts  int64
		converged bool // the first measured loop is a slow one, so the last quiet period takes long
	}{quiet: {0, 0, 0, true}, busy: {4, 1, 0, false}, done: {0, 0, 5, false}} {
		was := stateAt(at)
		of := was.Controllers[0]
		if of.Queued != want.queued || len(of.InFlight) != want.inFlight || of.Attempts != want.attempts || want.converged != (was.Level == cache.Converged) {
			t.Errorf("at %d the level was %v, and the controller %+v; want %+v", at, was.Level, of, want)
		}
	}
	if next := stateAt(busy).Next; next == nil || len(next.Missing) == 0 {
		t.Errorf("nothing says what the next level waited for: %+v", next)
	}
	if before, text := read[struct{ Manager *introspection.State }](t, get, "/debug/past/state?at=1000"); before.Manager != nil {
		t.Errorf("before the recording the state is %s", text)
	}
}
