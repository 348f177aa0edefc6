package replaytest_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/replaytest"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// counting is a controller that writes the names and labels of the Secrets into its ConfigMap. first is called in
// each attempt before that.
func counting(first func()) controller.Setup {
	return func(config *rest.Config, options controller.Options) (*controller.Manager, error) {
		options.Window = time.Second // Attempts of the test read before the watch is applied.
		manager, err := controller.NewManager(config, scheme.Scheme, options)
		if err != nil {
			return nil, err
		}
		client := manager.Client()
		return manager, manager.Add("counting", func(ctx context.Context, request operators.Request) (time.Duration, error) {
			object, err := controller.Get[*corev1.ConfigMap](ctx, client, request.NamespacedName)
			if err != nil {
				return 0, controller.IgnoreNotFound(err)
			}
			first()
			all, err := controller.List[*corev1.Secret](ctx, client)
			if err != nil {
				return 0, err
			}
			changed := object.DeepCopy()
			changed.Data = map[string]string{}
			for _, secret := range all {
				changed.Data[secret.Name] = fmt.Sprint(secret.Labels, len(secret.Data))
			}
			_, err = controller.Patch(ctx, client, changed, controller.MergeFrom(object))
			return 0, err
		}, controller.For(&corev1.ConfigMap{}), controller.Watches(&corev1.Secret{}, func(streams.Object) []types.NamespacedName { return nil }))
	}
}

func TestWritesOutsideOfAttemptsAreReplayed(t *testing.T) {
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	const canary = "canary-in-a-secret"
	secret := func(name, label string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"is": label}}, Data: map[string][]byte{"key": []byte(canary)}}
	}
	for _, object := range []*corev1.Secret{secret("changed", "old"), secret("deleted", "old")} {
		if err := server.Create(object); err != nil {
			t.Fatal(err)
		}
	}
	begun, written := make(chan struct{}), make(chan struct{})
	options := recording.Options{Dir: t.TempDir()}
	manager, err := counting(func() {
		select {
		case begun <- struct{}{}:
			<-written
		case <-written:
		}
	})(server.Config(), controller.Options{Logger: slog.New(slog.DiscardHandler), Recording: &options})
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("manager", manager.Run)
	if err := server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "heroes"}}); err != nil {
		t.Fatal(err)
	}
	<-begun
	ctx, client := t.Context(), manager.Client()
	changed, err := controller.GetLive[*corev1.Secret](ctx, client, types.NamespacedName{Namespace: "default", Name: "changed"})
	if err != nil {
		t.Fatal(err)
	}
	changed.Labels["is"] = "new"
	if _, err := controller.Update(ctx, client, changed); err != nil {
		t.Fatal(err)
	}
	if _, err := controller.Create(ctx, client, secret("created", "new")); err != nil {
		t.Fatal(err)
	}
	if err := controller.Delete(ctx, client, secret("deleted", "")); err != nil {
		t.Fatal(err)
	}
	close(written)
	if err := manager.Cache().Wait(ctx, cache.Settled); err != nil {
		t.Fatal(err)
	}
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	of := open(t, options.Dir)
	own := 0
	for _, record := range of.Records {
		if record.Own != nil {
			if own++; strings.Contains(string(record.Own.Body), base64.StdEncoding.EncodeToString([]byte(canary))) {
				t.Errorf("a record has the value of a Secret: %s", record.Own.Body)
			}
		}
	}
	if own != 3 {
		t.Errorf("%d writes are recorded as belonging to no attempt, want 3", own)
	}
	replayed := replaytest.Replay(t, of, counting(func() {}))
	if replayed.Attempts == 0 || len(replayed.Differences) > 0 {
		t.Errorf("of %d attempts, these differ: %v", replayed.Attempts, replayed.Differences)
	}
}
