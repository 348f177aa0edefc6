package dependents_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/dependents"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestACreationTakesOneRequestAndNoObjectOver(t *testing.T) {
	inWorld(t, func(w *world) {
		// The events of Secrets come late, so the cache does not have what another client makes.
		w.start(w.newSet(secret("a"), secret("b"), secret("c").When(wants("c")), secret("d").Adopt().When(wants("d"))), 0, false)
		if slices.Sort(w.sent); !slices.Equal(w.sent, []string{"PATCH a", "PATCH b"}) {
			t.Errorf("at first it sent %q", w.sent)
		}
		if gets := w.server.Counts().Requests["get secrets"]; gets > 0 {
			t.Errorf("two creations took %d reads", gets)
		}
		w.must(w.server.Inject(sourcestest.Fault{Action: sourcestest.Delay, Type: "ADDED", For: 10 * time.Minute, Times: sourcestest.Always}))
		for _, name := range []string{"c", "d"} {
			w.must(w.server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Data: map[string][]byte{"theirs": {1}}}))
		}
		w.set(map[string]string{"with": "cd"})
		if err := w.last().Err(); !errors.Is(err, dependents.ErrNotOwned) {
			t.Errorf("the error is %v", err)
		}
		w.wantStates("while the cache is late", "a=Ready b=Ready c=Failed d=Ready")
		if theirs := w.children()["c"]; len(theirs.OwnerReferences) > 0 || len(theirs.Data) != 1 {
			t.Errorf("the set took %v over", theirs)
		}
	})
}

// wants returns a condition that the owner's data names a child under "with".
func wants(name string) func(*corev1.ConfigMap, *dependents.View) bool {
	return func(owner *corev1.ConfigMap, _ *dependents.View) bool {
		return strings.Contains(owner.Data["with"], name)
	}
}

func TestAChildOfAnEarlierOwnerIsSaidToBeThat(t *testing.T) {
	inWorld(t, func(w *world) {
		w.must(w.server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "earlier", Controller: new(true)},
		}}}))
		w.start(w.newSet(secret("a")), 0, false)
		if err := w.last().Err(); !errors.Is(err, controller.ErrFormerOwner) || !errors.Is(err, controller.ErrOtherController) {
			t.Errorf("the error is %v", err)
		}
		w.must(w.server.Delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a"}})) // As the garbage collector does.
		w.wait(time.Minute)
		w.wantStates("when it is gone", "a=Ready")
	})
}
