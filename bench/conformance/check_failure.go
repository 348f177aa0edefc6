package conformance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var failureChecks = []check{
	{"7.1", "A write that fails is retried with a backoff", ofOperators, backsOff},
	{"7.2", "Each write may fail twice; the object still becomes finished", ofOperators, retriesEach},
	{"7.3", "The process recovers from an API server outage of two seconds", ofOperators, outlivesAnOutage},
}

// mostAttempts is the maximum number of attempts of a failing write within three seconds. The
// usual backoff, which starts at 5 ms and doubles, makes 10 attempts.
const mostAttempts = 30

func backsOff(ctx context.Context, t *trial) error {
	isOurs := func(c *call) bool { return t.isWrite(c) && c.Resource == statefulSets.Resource }
	stop := t.proxy.fail(func(c *call) *metav1.Status {
		if isOurs(c) {
			return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: request timed out")
		}
		return nil
	})
	defer stop()
	mark := t.proxy.mark()
	hero, err := t.create(ctx, t.hero("pegasus", 1))
	if err != nil {
		return err
	}
	patient, cancel := context.WithTimeout(ctx, t.options.Patience)
	defer cancel()
	first, err := t.proxy.await(patient, mark, isOurs, some)
	if err != nil {
		return fmt.Errorf("wait for the first attempt: %w", err)
	}
	if err := t.marker(ctx); err != nil { // The contract allows other objects to wait.
		t.note("while a write of one object fails, others wait: %v", err)
	}
	// The window is three seconds from the first attempt, and lasts until there is a second one.
	third := first[0].at.Add(3 * time.Second)
	window, end := context.WithDeadline(ctx, third)
	defer end()
	<-window.Done()
	attempts, err := t.proxy.await(patient, mark, isOurs, func(found []call) bool { return len(found) > 1 })
	if err != nil {
		return fmt.Errorf("wait for a second attempt: %w", err)
	}
	stop()
	// A contender whose other objects wait had more time.
	within := slices.DeleteFunc(slices.Clone(attempts), func(c call) bool { return c.at.After(third) })
	if len(within) > mostAttempts {
		return fmt.Errorf("%d attempts within three seconds, want at most %d", len(within), mostAttempts)
	}
	t.note("%d attempts within %.1f s", len(attempts), attempts[len(attempts)-1].at.Sub(first[0].at).Seconds())
	lifted := time.Now()
	_, err = t.awaitAll(ctx, hero)
	t.note("finished %.1f s after the failures ended", time.Since(lifted).Seconds())
	return err
}

func retriesEach(ctx context.Context, t *trial) error {
	failures := map[string]int{}
	failTwice := func(c *call) *metav1.Status {
		if !t.isWrite(c) {
			return nil
		}
		what := c.Verb + " " + c.what()
		failures[what]++
		switch {
		case failures[what] == 1:
			return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: request timed out")
		case failures[what] == 2 && c.Verb != "create":
			return failure(http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
		case failures[what] == 2:
			return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: leader changed")
		}
		return nil
	}
	stop := t.proxy.fail(failTwice)
	defer stop()
	if _, err := t.finished(ctx, "pegasus", 1); err != nil {
		return err
	}
	hero, err := t.change(ctx, "pegasus", `{"image":"bellerophon-io/bellerophon-server:v2","winged_horse_name":"tulpar"}`)
	if err != nil {
		return err
	}
	if _, err := t.awaitAll(ctx, hero); err != nil {
		return fmt.Errorf("after a change: %w", err)
	}
	stop()
	return t.undone(ctx, "pegasus", drifts[0], same)
}

func outlivesAnOutage(ctx context.Context, t *trial) error {
	if _, err := t.settled(ctx, "pegasus-0", 1); err != nil {
		return err
	}
	stop := t.proxy.fail(func(*call) *metav1.Status {
		return failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the API server is down")
	})
	defer stop()
	t.proxy.cut()
	before, err := t.change(ctx, "pegasus-0", `{"replicas":2}`)
	if err != nil {
		return err
	}
	during, err := t.create(ctx, t.hero("pegasus-1", 1))
	if err != nil {
		return err
	}
	away, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	<-away.Done()
	stop()
	back := time.Now()
	if _, err := t.awaitAll(ctx, before); err != nil {
		return err
	}
	_, err = t.awaitAll(ctx, during)
	t.note("finished %.1f s after the end of the outage", time.Since(back).Seconds())
	return err
}
