package tracing_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnExporterThatHangsHoldsUpNoReconcileAndEachTraceEndsOnce(t *testing.T) {
	const objects = 2000 // More than the followers buffer.
	var attempts atomic.Int64
	inWorld(t, func(context.Context, *world, operators.Request) (time.Duration, error) {
		attempts.Add(1)
		return 0, nil
	}, func(w *world) {
		released := make(chan struct{})
		w.hang.Store(&released)
		for i := range objects {
			w.must(w.server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(i)}}))
		}
		w.pass(time.Minute)
		if got := attempts.Load(); got != objects {
			t.Errorf("%d attempts have run while the exporter hangs, want %d", got, objects)
		}
		close(released)
	}, func(w *world, ended spans) {
		roots := map[string]int{}
		for _, root := range ended.named("request") {
			roots[value(root, "bellerophon.object.name")]++
		}
		for i := range objects {
			if got := roots[fmt.Sprint(i)]; got != 1 {
				t.Fatalf("%d traces of object %d have ended, want 1", got, i)
			}
		}
	})
}
