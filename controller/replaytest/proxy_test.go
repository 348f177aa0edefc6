package replaytest_test

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// proxyPath is the path at which a proxy offers an API server.
const proxyPath = "/k8s/clusters/c-1"

// withoutProxyPath forwards requests as such a proxy does.
type withoutProxyPath struct{ next http.RoundTripper }

func (w withoutProxyPath) RoundTrip(request *http.Request) (*http.Response, error) {
	made := request.Clone(request.Context())
	made.URL.Path = strings.TrimPrefix(request.URL.Path, proxyPath)
	return w.next.RoundTrip(made)
}

// copyingSecrets creates a Secret for each ConfigMap, and reads it from the API server.
func copyingSecrets(value string) controller.Setup {
	return func(config *rest.Config, options controller.Options) (*controller.Manager, error) {
		manager, err := controller.NewManager(config, scheme.Scheme, options)
		if err != nil {
			return nil, err
		}
		client := manager.Client()
		return manager, manager.Add("copying", func(ctx context.Context, request operators.Request) (time.Duration, error) {
			if _, err := controller.GetLive[*corev1.Secret](ctx, client, request.NamespacedName); err == nil {
				return 0, nil
			}
			_, err := controller.Create(ctx, client, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}, Data: map[string][]byte{"key": []byte(value)},
			})
			return time.Hour, err
		}, controller.For(&corev1.ConfigMap{}), controller.Owns(&corev1.Secret{}))
	}
}

// A path before the paths of the API hides no Secret from the recording, and a replay need not know it.
func TestARecordingThroughAProxyWithAPathHasNoSecretAndIsReplayed(t *testing.T) {
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	config := server.Config()
	config.Host += proxyPath
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return withoutProxyPath{next} })
	const canary = "canary-in-a-secret"
	setup, options := copyingSecrets(canary), recording.Options{Dir: t.TempDir()}
	manager, err := setup(config, controller.Options{Logger: slog.New(slog.DiscardHandler), Recording: &options})
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("manager", manager.Run)
	hero := types.NamespacedName{Namespace: "default", Name: "hero"}
	if err := server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: hero.Namespace, Name: hero.Name}}); err != nil {
		t.Fatal(err)
	}
	if err := manager.Cache().Wait(t.Context(), cache.Settled); err != nil {
		t.Fatal(err)
	}
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	recorded, concerning := open(t, options.Dir), 0
	for _, record := range recorded.Records {
		if record.Exchange == nil {
			continue
		}
		if strings.Contains(record.Exchange.URL, "secrets") {
			concerning++
		}
		if !strings.HasPrefix(record.Exchange.URL, "/api/v1/") {
			t.Errorf("the recording has the URL %s", record.Exchange.URL)
		}
		shown := string(record.Exchange.Body) + string(record.Exchange.Answer)
		for _, value := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))} {
			if strings.Contains(shown, value) {
				t.Errorf("%s %s has the value of a Secret: %s", record.Exchange.Method, record.Exchange.URL, shown)
			}
		}
	}
	if concerning < 2 {
		t.Fatalf("%d recorded requests are about Secrets, want a read and a creation at least", concerning)
	}
	replayed := replaytest.Replay(t, recorded, setup)
	if len(replayed.Differences) > 0 || replayed.Attempts == 0 {
		t.Errorf("of %d attempts in the replay, these differ: %+v", replayed.Attempts, replayed.Differences)
	}
}
