package operators_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

// writing returns a reconciler that writes its object as version 10. For a, it writes b. It takes a
// second before the write and a second after it.
func writing(requeueAfter time.Duration, err error) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		wait(ctx, time.Second)
		name := request.Name
		if name == "a" {
			name = "b"
		}
		operators.RecordWrite(ctx, operators.Write{Verb: "patch", Key: podKey(name), ResourceVersion: "10", Exclusive: true})
		wait(ctx, time.Second)
		return requeueAfter, err
	}
}

// ofB returns a request for a that changes of b cause.
func ofB(causes ...streams.Cause) operators.Request {
	made := request("a")
	for i := range causes {
		causes[i].Key = podKey("b")
	}
	made.Causes = causes
	return made
}

var (
	own     = streams.Cause{Type: streams.Applied, ResourceVersion: "10"}
	foreign = streams.Cause{Type: streams.Applied, ResourceVersion: "11"}
)

func TestEchoesOfOwnWrites(t *testing.T) {
	const (
		dropped = "0s a"
		during  = 1500 * time.Millisecond // The write is made, and its answer is still in flight.
		after   = 5 * time.Second
	)
	for name, test := range map[string]struct {
		at       time.Duration
		request  operators.Request
		attempts string
	}{
		"the event after the answer is dropped":     {after, ofB(own), dropped},
		"the event before the answer is dropped":    {during, ofB(own), dropped},
		"one coalesced with a foreign write is not": {after, ofB(own, foreign), "0s a | 5s a"},
		"nor before the answer":                     {during, ofB(foreign, own), "0s a | 2s a"},
		"a foreign write is not":                    {after, ofB(foreign), "0s a | 5s a"},
		"a listed object is not":                    {after, ofB(streams.Cause{Type: streams.Listed, ResourceVersion: "10"}), "0s a | 5s a"},
		"nor before the answer as a listed one":     {during, ofB(streams.Cause{Type: streams.Listed, ResourceVersion: "10"}), "0s a | 2s a"},
		"a deletion is not":                         {after, ofB(streams.Cause{Type: streams.Deleted, ResourceVersion: "10"}), "0s a | 5s a"},
		"a deletion after the write is not":         {after, ofB(own, streams.Cause{Type: streams.Deleted, ResourceVersion: "12"}), "0s a | 5s a"},
		"causes that were left out may be foreign":  {after, operators.Request{Controller: "pods", NamespacedName: podName("a"), Causes: []streams.Cause{{}, {Type: streams.Applied, Key: podKey("b"), ResourceVersion: "10"}}}, "0s a | 5s a"},
		"a request without causes is not":           {after, ofB(), "0s a | 5s a"},
		"the same version of another object is not": {after, request("a", "10"), "0s a | 5s a"},
		"another object it concerns is reconciled":  {after, operators.Request{Controller: "pods", NamespacedName: podName("z"), Causes: ofB(own).Causes}, "0s a | 5s z"},
		"another controller gets it":                {after, operators.Request{Controller: "others", NamespacedName: podName("a"), Causes: ofB(own).Causes}, "0s a | 5s a"},
	} {
		bubble(t, name, func(t *testing.T) {
			b := newRigOf(t, map[string]operators.Controller{
				"pods":   {Reconcile: writing(0, nil), IgnoreEchoes: true},
				"others": {Reconcile: takes(0), IgnoreEchoes: true},
			}, one)
			b.in.send(request("a", "1"))
			pass(test.at)
			b.in.send(test.request)
			pass(time.Hour)
			b.wantAttempts(test.attempts)
			b.stop()
		})
	}
}

// If an apply changes nothing, the answer has the version of the last write. Another client may
// have made that write, and its event may not have come yet.
func TestAWriteThatMayHaveChangedNothingHasNoEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRigOf(t, map[string]operators.Controller{"pods": {
			Reconcile: func(ctx context.Context, _ operators.Request) (time.Duration, error) {
				operators.RecordWrite(ctx, operators.Write{Verb: "apply", Key: podKey("b"), ResourceVersion: "10"})
				return 0, nil
			},
			IgnoreEchoes: true,
		}}, one)
		b.in.send(request("a", "1"))
		pass(5 * time.Second)
		b.in.send(ofB(own))
		pass(time.Hour)
		b.wantAttempts("0s a | 5s a")
		b.stop()
	})
}

func TestEchoesAreNotIgnoredUnlessAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRig(t, writing(0, nil), one)
		b.in.send(request("a", "1"))
		pass(5 * time.Second)
		b.in.send(ofB(own))
		b.drain()
		b.wantAttempts("0s a | 5s a")
	})
}

func TestAnotherControllerSeesAWriteOnceItsWriterDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRigOf(t, map[string]operators.Controller{
			"pods":   {Reconcile: writing(0, nil), IgnoreEchoes: true},
			"others": {Reconcile: takes(0), IgnoreEchoes: true},
		}, one)
		b.in.send(request("b", "1"))
		pass(5 * time.Second)
		// Both requests are in one batch, as Trigger makes it of one change. The order must not
		// matter.
		b.in.send(request("others/b", "10"), request("b", "10"))
		b.drain()
		b.wantAttempts("0s b | 5s b")
		b.wantResults("b:success#1", "b:success#1")
		if last := b.results[1].Controller; last != "others" {
			t.Errorf("the second attempt is of %s, want others", last)
		}
	})
}

func TestAnEchoDoesNotEndTheWaitForARequeue(t *testing.T) {
	for name, at := range map[string]time.Duration{"before the answer": 1500 * time.Millisecond, "after the answer": 10 * time.Second} {
		bubble(t, name, func(t *testing.T) {
			b := newRigOf(t, map[string]operators.Controller{"pods": {Reconcile: writing(time.Minute, nil), IgnoreEchoes: true}}, one)
			b.in.send(request("a", "1"))
			pass(at)
			b.in.send(ofB(own))
			pass(65 * time.Second)
			b.wantAttempts("0s a | 1m2s a")
			b.stop()
		})
	}
}

func TestAnEchoOfAnAttemptThatFailedIsDroppedToo(t *testing.T) {
	for name, at := range map[string]time.Duration{"before the answer": 1500 * time.Millisecond, "during the backoff": 10 * time.Second} {
		bubble(t, name, func(t *testing.T) {
			b := newRigOf(t, map[string]operators.Controller{"pods": {Reconcile: writing(0, errFailed), IgnoreEchoes: true}}, backoff(time.Minute, time.Hour))
			b.in.send(request("a", "1"))
			pass(at)
			b.in.send(ofB(own))
			pass(65 * time.Second)
			b.wantAttempts("0s a | 1m2s a")
			if causes := b.results[len(b.results)-1].Causes; len(causes) != 1 || causes[0].ResourceVersion != "1" {
				t.Errorf("the causes are %v", causes)
			}
			b.stop()
		})
	}
}

func TestAnEchoIsRememberedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRigOf(t, map[string]operators.Controller{"pods": {Reconcile: writing(0, nil), IgnoreEchoes: true}}, one)
		b.in.send(request("a", "1"))
		pass(5 * time.Second)
		b.in.send(ofB(own))
		pass(5 * time.Second)
		b.in.send(ofB(own)) // The same event a second time is no echo: one reconcile too many is safe.
		pass(time.Second)
		b.wantAttempts("0s a | 10s a")
		b.stop()
	})
}

// After a restore from a backup, another client's write may get a version that was used before.
func TestEchoesThatAreForgottenAreDroppedNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRigOf(t, map[string]operators.Controller{"pods": {Reconcile: writing(0, nil), IgnoreEchoes: true}}, one)
		b.in.send(request("a", "1"))
		pass(5 * time.Second)
		b.controllers.ForgetEchoes()
		b.in.send(ofB(own))
		pass(time.Hour)
		b.wantAttempts("0s a | 5s a")
		b.stop()
	})
}
