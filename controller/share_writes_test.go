package controller_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The writes of a replica that may have been deposed are refused before they are sent.
func TestWritesOfADeposedReplicaAreRefused(t *testing.T) {
	inShareWorld(t, func(w *shareWorld) {
		first := w.replica(nil)
		outcome := make(chan error, 1)
		w.must(first.manager.Add("services", func(ctx context.Context, _ operators.Request) (time.Duration, error) {
			<-time.After(2 * lease) // It does not look at its context.
			_, err := controller.Create(context.WithoutCancel(ctx), first.manager.Client(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "late"}})
			outcome <- err
			return 0, nil
		}, controller.For(&corev1.Service{})))
		w.wait(3 * time.Second)
		w.must(w.server.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}}))
		w.wait(time.Second)
		first.wire.cut()
		w.wait(lease + time.Second)
		first.wire.heal()
		if err := <-outcome; !errors.Is(err, shards.ErrLost) {
			t.Errorf("the write ended with %v", err)
		}
		if err := w.server.Get(secret("late")); err == nil {
			t.Error("the write was sent nevertheless")
		}
		w.wait(lease)
	})
}

func TestTheAPIServerGivesUpAWriteOfAShareBeforeTheLeaseEnds(t *testing.T) {
	inShareWorld(t, func(w *shareWorld) {
		first := w.replica(nil)
		w.create(3)
		w.wait(5 * time.Second)
		first.wire.mu.Lock()
		defer first.wire.mu.Unlock()
		if len(first.wire.limits) == 0 {
			t.Fatal("nothing was written")
		}
		for _, text := range first.wire.limits {
			if limit, err := time.ParseDuration(text); err != nil || limit <= 0 || limit >= lease {
				t.Errorf("the API server may work on a write for %q; without a limit, for a minute", text)
			}
		}
	})
}

// A write whose answer was lost may still take effect, so the next owner of its object waits for it.
func TestAnObjectIsNotHandedOverWhileAWriteMayTakeEffect(t *testing.T) {
	inShareWorld(t, func(w *shareWorld) {
		w.must(w.server.Inject(sourcestest.Fault{Verb: "create", Resource: "secrets", Action: sourcestest.LoseAnswer, Times: sourcestest.Always}))
		w.replica(nil)
		w.wait(3 * time.Second)
		w.create(100)
		w.wait(time.Second) // Each object has one secret, whose answer was lost.
		second := w.replica(nil)
		reconciled := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(second.done)
		}
		w.wait(shards.DefaultRenewDeadline)
		if early := reconciled(); early > 0 {
			t.Errorf("while the writes may take effect, the second replica has reconciled %d objects", early)
		}
		w.wait(lease)
		if late := reconciled(); late < 20 || late > 80 {
			t.Errorf("when the writes are over, the second replica has reconciled %d objects, want about half of 100", late)
		}
		w.isTrue("after the writes")
	})
}
