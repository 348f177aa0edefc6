package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// elapse advances the time in a bubble.
func elapse(t *testing.T, d time.Duration) {
	t.Helper()
	if err := pause(t.Context(), time.Now().Add(d)); err != nil {
		t.Fatal(err)
	}
}

func recorderOf(loop time.Duration) *recorder {
	r := newRecorder()
	r.loop = func() time.Duration { return loop }
	return r
}

// resultOf returns an attempt with the given causes that took 10 ms and ends now.
func resultOf(causes ...streams.Cause) operators.Result {
	began := time.Now().Add(-10 * ms)
	result := operators.Result{Started: began.Add(4 * ms), Duration: 6 * ms}
	result.Received, result.Causes = began, causes
	return result
}

func TestAnAttemptLastsFromItsEventToItsEndAndIsOfTheLoadByItsOldestCause(t *testing.T) {
	hero := streams.Key{GroupKind: schema.GroupKind{Group: v1.GroupVersion.Group, Kind: v1.Kind}}
	child := streams.Key{GroupKind: schema.GroupKind{Kind: "Service"}}
	for name, test := range map[string]struct {
		causes []streams.Cause
		load   bool
	}{
		"a timer":                        {nil, false},
		"a write of the load":            {[]streams.Cause{{Type: streams.Applied, Key: hero, ResourceVersion: "5"}}, true},
		"an own write before the load's": {[]streams.Cause{{Type: streams.Applied, Key: hero, ResourceVersion: "4"}, {Type: streams.Applied, Key: hero, ResourceVersion: "5"}}, false},
		"a deletion of an object":        {[]streams.Cause{{Type: streams.Deleted, Key: hero, ResourceVersion: "6"}}, true},
		"a deletion of a child":          {[]streams.Cause{{Type: streams.Deleted, Key: child, ResourceVersion: "7"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := recorderOf(3 * ms)
				elapse(t, 20*ms)
				r.result(resultOf(test.causes...))
				want := span{from: time.Now().Add(-10 * ms), to: time.Now(), loop: 3 * ms, load: test.load}
				if got := r.end(map[string]bool{"5": true}).spans; len(got) != 1 || got[0] != want {
					t.Errorf("recorded %v, want %v", got, want)
				}
			})
		})
	}
}

func TestWhatEndedBeforeTheRecordingIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorderOf(ms)
		r.level(cache.Settled)
		r.result(resultOf())
		elapse(t, time.Second)
		r.begin()
		r.level(cache.Listed)
		elapse(t, time.Second)
		r.result(resultOf())
		r.level(cache.Settled)
		r.level(cache.Converged) // The level is Settled or above already.
		elapse(t, 2*time.Second)
		r.level(cache.OwnWritesVisible)
		r.level(cache.Settled)
		elapse(t, 3*time.Second)
		got := r.end(nil)
		if len(got.spans) != 1 || got.until.Sub(got.from) != 6*time.Second {
			t.Errorf("recorded %v in %v, want one attempt in 6s", got.spans, got.until.Sub(got.from))
		}
		want := []gap{{length: 2 * time.Second, loop: ms}, {length: 3 * time.Second, loop: ms, open: true}}
		if len(got.rises) != 2 || got.rises[0] != want[0] || got.rises[1] != want[1] {
			t.Errorf("the rises are %v, want %v", got.rises, want)
		}
		if got := observedOf(got.rises, floor); got != (observed{Rises: 2}) {
			t.Errorf("observed %+v, want two rises after which nothing came for a second", got)
		}
	})
}

func TestACalmIsTheQuietTimeAfterTheLastAttemptWithinALimit(t *testing.T) {
	for name, test := range map[string]struct{ limit, want time.Duration }{
		"it comes":       {time.Minute, 7 * time.Second},
		"it comes late":  {6 * time.Second, 6 * time.Second},
		"it is canceled": {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := recorderOf(ms)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				group := lifecycle.New(t.Context())
				group.Go("attempts", func(context.Context) error {
					for range 5 {
						elapse(t, time.Second)
						r.result(resultOf())
					}
					return nil
				})
				began := time.Now()
				if test.limit == 0 {
					cancel()
					test.limit = time.Hour
				}
				err := r.calm(ctx, test.limit, func() time.Duration { return 2 * time.Second })
				if took := time.Since(began); took != test.want || (ctx.Err() == nil) != (err == nil) || (err != nil && !errors.Is(err, context.Canceled)) {
					t.Errorf("calm() = %v after %v, want %v", err, took, test.want)
				}
				if err := group.Wait(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
