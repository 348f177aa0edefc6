package dependents_test

import (
	"context"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/dependents"
	"github.com/bellerophon-io/bellerophon/sources"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestAChildFollowsAStateOutsideOfTheClusterAndStaysWhileThereIsNone(t *testing.T) {
	inWorld(t, func(w *world) {
		feed := make(chan string)
		begin := func() {
			answers := dependents.NewExternal("dns", sources.Channel(feed), func(answer string) []types.NamespacedName {
				return []types.NamespacedName{{Namespace: "a", Name: "owner"}}
			})
			address := dependents.One("address", func(_ context.Context, owner *corev1.ConfigMap, _ *dependents.View) (*corev1.Secret, error) {
				answer, err := answers.Of(owner)
				if err != nil || answer == "" {
					return nil, err
				}
				return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "address"}, Data: map[string][]byte{"value": []byte(answer)}}, nil
			})
			w.start(w.newSet(address, secret("b").After(address)), 0, false, answers.Requests())
		}
		begin()
		w.wantStates("before the first answer", "address=Waiting b=Waiting")
		if message := w.last().Message(); message != "address waits: dns has no state for it yet; b waits for address" {
			t.Errorf("the message is %q", message)
		}
		send := func(answer string) {
			feed <- answer
			w.wait(time.Minute)
		}
		send("10.0.0.1")
		w.wantStates("after the first answer", "address=Ready b=Ready")
		w.wantSent("after the first answer", "PATCH address", "PATCH b")
		calls := w.calls()
		send("10.0.0.1")
		if w.calls() != calls {
			t.Error("an answer that is the same makes a request")
		}
		send("10.0.0.2")
		w.wantSent("after another answer", "PATCH address")
		w.stop()
		begin()
		if got := w.children()["address"]; string(got.Data["value"]) != "10.0.0.2" {
			t.Errorf("after a restart without an answer the child is %v", got)
		}
		w.wantStates("after a restart without an answer", "address=Waiting b=Waiting")
		send("")
		w.want("after an answer that there is none", "b")
	})
}
