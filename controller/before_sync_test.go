package controller_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
)

// All objects but "old" are reconciled before sync.
func TestListsWaitUntilObjectsAreReconciledBeforeSyncAndNotForLong(t *testing.T) {
	const never = time.Hour
	for name, test := range map[string]struct {
		objects []string
		answer  func(since time.Duration) (time.Duration, error)
		fault   sourcestest.Fault
		want    time.Duration // from the start to the lists
	}{
		"no such objects": {[]string{"old"}, nil, sourcestest.Fault{}, 0},
		"objects that need one attempt": {[]string{"old", "x", "y"}, func(time.Duration) (time.Duration, error) {
			return 0, nil
		}, sourcestest.Fault{}, 0},
		"objects that are looked at until they are done": {[]string{"old", "x", "y"}, func(since time.Duration) (time.Duration, error) {
			if since < 1500*time.Millisecond {
				return 250 * time.Millisecond, nil
			}
			return 0, nil
		}, sourcestest.Fault{}, 1500 * time.Millisecond},
		"objects that are done and looked at in an hour": {[]string{"old", "x"}, func(time.Duration) (time.Duration, error) {
			return never, nil
		}, sourcestest.Fault{}, 0},
		"an object that is never done": {[]string{"old", "x"}, func(time.Duration) (time.Duration, error) {
			return 200 * time.Millisecond, nil
		}, sourcestest.Fault{}, 3 * time.Second},
		"a reconciler that hangs": {[]string{"old", "x"}, func(time.Duration) (time.Duration, error) {
			<-time.After(time.Minute)
			return 0, nil
		}, sourcestest.Fault{}, 3 * time.Second},
		"an object that may need the lists": {[]string{"old", "x"}, func(time.Duration) (time.Duration, error) {
			return 0, errors.New("its child exists, but is not in the cache")
		}, sourcestest.Fault{}, 0},
		"a panic": {[]string{"old", "x"}, func(time.Duration) (time.Duration, error) {
			panic("no")
		}, sourcestest.Fault{}, 0},
		"a server that does not select": {[]string{"old", "x"}, nil,
			sourcestest.Fault{Action: sourcestest.Refuse, Verb: "list", Resource: "configmaps", Code: http.StatusBadRequest}, 0},
		"a server that does not answer": {[]string{"old", "x"}, nil,
			sourcestest.Fault{Action: sourcestest.Slow, Verb: "list", Resource: "configmaps", For: time.Minute}, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			of := sourcestest.Options{}
			if test.fault.Resource != "" {
				of.Script = []sourcestest.Fault{test.fault}
			}
			inLevelWorld(t, of, controller.Options{}, func(w *levelWorld) {
				w.create(test.objects...)
				began := time.Now()
				w.must(w.manager.Add("configs", func(ctx context.Context, request operators.Request) (time.Duration, error) {
					if test.answer == nil || request.Name == "old" || w.manager.Cache().Level() >= cache.Current {
						return 0, nil
					}
					return test.answer(time.Since(began))
				}, controller.For(&corev1.ConfigMap{}, controller.ReconcileBeforeSync(func(config *corev1.ConfigMap) bool {
					return config.Name != "old"
				}, "metadata.name!=old")), controller.Owns(&corev1.Secret{})))
				w.run()
				listed := time.Duration(0)
				for w.server.Counts().Requests["list secrets"] == 0 && listed < never {
					w.wait(10 * time.Millisecond)
					listed = time.Since(began)
				}
				if listed < test.want || listed > test.want+50*time.Millisecond {
					t.Errorf("secrets are listed %v after the start, want %v", listed, test.want)
				}
				if test.fault.Resource == "" {
					w.wait(time.Second)
					if level := w.level(); level < cache.Current {
						t.Errorf("a second after that the level is %v", level)
					}
				}
			})
		})
	}
}
