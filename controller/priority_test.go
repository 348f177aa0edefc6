package controller_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
)

func TestANewObjectIsReconciledWithinASecondBehind20000OldOnes(t *testing.T) {
	const old = 20_000
	inLevelWorld(t, sourcestest.Options{}, controller.Options{}, func(w *levelWorld) {
		for i := range old {
			w.create(fmt.Sprint("old", i))
		}
		done := make(chan time.Time, 1)
		w.must(w.manager.Add("configs", func(_ context.Context, request operators.Request) (time.Duration, error) {
			if request.Name == "new" {
				done <- time.Now()
			}
			<-time.After(10 * time.Millisecond)
			return 0, nil
		}, controller.For(&corev1.ConfigMap{}), controller.Resync(time.Second)))
		w.run()
		w.must(w.manager.Cache().Wait(w.t.Context(), cache.Current))
		w.wait(100 * time.Millisecond)
		created := time.Now()
		w.create("new")
		took := (<-done).Sub(created)
		if took > time.Second {
			t.Errorf("the new object is reconciled after %v, want within a second", took)
		}
	})
}
