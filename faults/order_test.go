package faults

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestAWriteAtWhichAnOperatorIsKilledIsTheFirstOrTheLastOfParallelOnes(t *testing.T) {
	for _, test := range []struct {
		moment     Moment
		due, other time.Duration // how long the write of the kill and another one wait
	}{
		{BeforeForward, parallelTime, 0},
		{AnswerWithheld, 0, parallelTime},
		{AfterAnswer, 0, parallelTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := wrap(nil)
			w.counts["ns patch services a"] = 1
			w.kill = &killing{namespace: "ns", write: "patch services a #2", moment: test.moment}
			waited := func(namespace, kind string) time.Duration {
				began := time.Now()
				if err := w.order(t.Context(), namespace, kind); err != nil {
					t.Error(err)
				}
				return time.Since(began)
			}
			if is := waited("ns", "patch services a"); is != test.due {
				t.Errorf("%s: the write waits %v, want %v", test.moment, is, test.due)
			}
			if is := waited("ns", "patch services b"); is != test.other {
				t.Errorf("%s: another write waits %v, want %v", test.moment, is, test.other)
			}
			if is := waited("another", "patch services a"); is != 0 {
				t.Errorf("%s: a write in another namespace waits %v", test.moment, is)
			}
			w.kill = nil
			if is := waited("ns", "patch services a"); is != 0 {
				t.Errorf("without a kill a write waits %v", is)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := wrap(nil)
	w.kill = &killing{namespace: "ns", write: "patch services a #1", moment: BeforeForward}
	if err := w.order(ctx, "ns", "patch services a"); err == nil {
		t.Error("a request whose connection has ended waits")
	}
}
