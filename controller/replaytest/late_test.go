package replaytest_test

import (
	"context"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/replaytest"
	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// oneAttempt is a recording with an attempt that succeeds after a while, and when it began.
func oneAttempt(took time.Duration) (of *recording.Recording, began time.Time) {
	began = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	start := &recording.Start{Attempt: 1, Started: began.UnixNano(), Request: operators.Request{Controller: "c", NamespacedName: types.NamespacedName{Name: "hero"}}}
	return &recording.Recording{Records: []*recording.Record{
		{At: began.UnixNano(), Position: 1, Start: start},
		{At: began.Add(took).UnixNano(), Position: 1, End: &recording.End{Attempt: 1}},
	}}, began
}

// reconciling sets up a controller.
func reconciling(timeout time.Duration, reconcile operators.Reconciler) controller.Setup {
	return func(config *rest.Config, options controller.Options) (*controller.Manager, error) {
		options.Timeout = timeout
		manager, err := controller.NewManager(config, scheme.Scheme, options)
		if err != nil {
			return nil, err
		}
		return manager, manager.Add("c", reconcile, controller.For(&corev1.ConfigMap{}))
	}
}

// What the API server serves is known from the start of a replay, and sorting has put it there. It may have been asked for
// an hour later.
func TestALateAnswerAboutResourcesDoesNotMoveTheClock(t *testing.T) {
	recorded, began := oneAttempt(time.Second)
	late := &recording.Record{At: began.Add(time.Hour).UnixNano(), Served: &recording.Served{Path: "/apis/late.example/v1", Answer: []byte(`{}`)}}
	recorded.Records = append([]*recording.Record{late}, recorded.Records...)
	var attempt time.Time
	replayed := replaytest.Replay(t, recorded, reconciling(0, func(ctx context.Context, _ operators.Request) (time.Duration, error) {
		attempt = time.Now()
		return 0, ctx.Err()
	}))
	if len(replayed.Differences) > 0 || replayed.Attempts != 1 {
		t.Errorf("%d attempts, with the differences %+v", replayed.Attempts, replayed.Differences)
	}
	if late := attempt.Sub(began); late > time.Second {
		t.Errorf("the attempt is %v late", late)
	}
}

func TestAReplayHasTheTimeoutOfTheManager(t *testing.T) {
	const took = 4 * time.Minute // The default timeout is shorter.
	recorded, _ := oneAttempt(took + time.Second)
	replayed := replaytest.Replay(t, recorded, reconciling(time.Hour, func(ctx context.Context, _ operators.Request) (time.Duration, error) {
		select {
		case <-time.After(took):
			return 0, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}))
	if len(replayed.Differences) > 0 || replayed.Attempts != 1 {
		t.Errorf("%d attempts, with the differences %+v", replayed.Attempts, replayed.Differences)
	}
}
