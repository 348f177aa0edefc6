package controller

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// whyWorld is a manager with one controller of Secrets, which labels each of them.
type whyWorld struct {
	t       *testing.T
	server  *sourcestest.Server
	manager *Manager
	address string
	stop    func() // the manager
}

func newWhyWorld(t *testing.T, options Options) *whyWorld {
	t.Helper()
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &whyWorld{t: t, server: server}
	options.Logger, options.MetricsAddress = slog.New(slog.DiscardHandler), "127.0.0.1:0"
	listens := make(chan net.Addr, 1)
	options.OnListen = func(_ string, address net.Addr) { listens <- address }
	if w.manager, err = NewManager(server.Config(), scheme.Scheme, options); err != nil {
		t.Fatal(err)
	}
	label := func(ctx context.Context, request operators.Request) (time.Duration, error) {
		secret, err := Get[*corev1.Secret](ctx, w.manager.Client(), request.NamespacedName)
		if err != nil || secret.Labels["seen"] == "yes" {
			return 0, IgnoreNotFound(err)
		}
		if _, err := GetLive[*corev1.Secret](ctx, w.manager.Client(), types.NamespacedName{Namespace: "a", Name: "missing"}); !apierrors.IsNotFound(err) {
			return 0, err
		}
		changed := secret.DeepCopy()
		changed.Labels = map[string]string{"seen": "yes"}
		_, err = Patch(ctx, w.manager.Client(), changed, MergeFrom(secret))
		return 0, err
	}
	if err := w.manager.Add("labels", label, For(&corev1.Secret{})); err != nil {
		t.Fatal(err)
	}
	w.stop = runToTheEnd(t, w.manager)
	w.address = "http://" + (<-listens).String()
	if err := w.manager.Cache().Wait(t.Context(), cache.Current); err != nil {
		t.Fatal(err)
	}
	return w
}

// runToTheEnd runs a manager until the test ends, or until stop is called.
func runToTheEnd(t testing.TB, manager *Manager) (stop func()) {
	t.Helper()
	group := lifecycle.New(context.Background())
	group.Go("manager", manager.Run)
	t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	return group.Stop
}

// why asks about an object, and returns the answer as it comes.
func (w *whyWorld) why(query string) (code int, body io.ReadCloser) {
	w.t.Helper()
	return w.get("/debug/why?" + query)
}

// get asks the metrics server, and returns the answer as it comes.
func (w *whyWorld) get(path string) (code int, body io.ReadCloser) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.address+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer.StatusCode, answer.Body
}

func TestWhySaysWhatLedToAnAttemptAndNoValue(t *testing.T) {
	w := newWhyWorld(t, Options{})
	_, answers := w.why("object=secrets/pegasus&namespace=a&follow=true")
	lines := bufio.NewReader(answers)
	said := ""
	next := func() history.Controller {
		t.Helper()
		line, err := lines.ReadString('\n')
		var explained history.Answer
		if err != nil || json.Unmarshal([]byte(line), &explained) != nil || len(explained.Controllers) != 1 {
			t.Fatalf("it says %q, %v", line, err)
		}
		said += line
		return explained.Controllers[0]
	}
	if before := next(); before.Cached || len(before.Attempts) != 0 || before.Name != "labels" || before.Kind != "Secret" || before.Level < cache.Current {
		t.Errorf("before the object exists, it says %+v", before)
	}
	made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "pegasus"}, Data: map[string][]byte{"token": []byte(canary)}}
	if err := w.server.Create(made); err != nil {
		t.Fatal(err)
	}
	written := func(explained history.Controller) bool {
		return explained.Cached && len(explained.Attempts) > 0 && len(explained.Attempts[0].Writes) == 1
	}
	first := next()
	for !written(first) {
		first = next()
	}
	attempt := first.Attempts[0]
	if len(attempt.Causes) != 1 || attempt.Causes[0].Kind != "Secret" || attempt.Causes[0].Name != "pegasus" || attempt.Outcome != "success" {
		t.Errorf("the first attempt is %+v", attempt)
	}
	if calls := attempt.Calls; len(calls) != 2 || calls[0].Method != http.MethodGet || calls[0].Code != http.StatusNotFound || calls[1].Path != "/api/v1/namespaces/a/secrets/pegasus" || calls[1].Code != http.StatusOK {
		t.Errorf("its calls are %+v", calls)
	}
	if reads := attempt.Reads; len(reads) != 1 || reads[0].Kind != "Secret" || reads[0].Name != "pegasus" || reads[0].Objects != 1 || reads[0].ResourceVersion != attempt.Causes[0].ResourceVersion {
		t.Errorf("its reads of the cache are %+v", reads)
	}
	wrote := attempt.Writes[0]
	echoed := first // The own write leads to another attempt.
	for len(echoed.Attempts) < 2 || echoed.Attempts[0].Writes[0].Seen == nil {
		echoed = next()
	}
	echo := echoed.Attempts[1].Causes[0]
	if echo.ResourceVersion != wrote.ResourceVersion || echo.WrittenBy != "labels "+attempt.ID || !slices.Equal(echo.Fields, []string{"metadata.labels.seen"}) {
		t.Errorf("the attempt wrote %+v, and the cause of the next one is %+v", wrote, echo)
	}
	if fields := echoed.Attempts[0].Writes[0].Fields; !slices.Equal(fields, []string{"metadata.labels.seen"}) {
		t.Errorf("the write changed %v", fields)
	}
	held, err := Get[*corev1.Secret](t.Context(), w.manager.Client(), nameOf(made))
	if err != nil {
		t.Fatal(err)
	}
	changed := held.DeepCopy()
	changed.Data["token"] = []byte(canary + canary)
	if err := w.server.Update(changed); err != nil {
		t.Fatal(err)
	}
	last := next()
	for len(last.Attempts) < 3 {
		last = next()
	}
	if cause := last.Attempts[2].Causes[0]; !slices.Equal(cause.Fields, []string{"data.token"}) || cause.Change != "updated" || cause.WrittenBy != "" {
		t.Errorf("the cause is %+v", cause)
	}
	if strings.Contains(said, canary) {
		t.Errorf("it says a value: %s", said)
	}
}

func TestWhyNeedsAnObjectThatAControllerReconciles(t *testing.T) {
	w := newWhyWorld(t, Options{})
	for query, want := range map[string]string{
		"":                              "give RESOURCE/NAME",
		"object=secrets":                "give RESOURCE/NAME",
		"object=/x":                     "give RESOURCE/NAME",
		"object=pods/x":                 "no controller reconciles pods; there are controllers of secrets",
		"object=secrets.apps/x":         "no controller reconciles secrets.apps",
		"object=pods/x&follow=true":     "no controller reconciles pods",
		"object=secret/x&namespace=a":   `"attempts":[]`,
		"object=Secrets/x&namespace=a":  `"attempts":[]`,
		"object=secrets./x&namespace=a": `"attempts":[]`,
	} {
		code, body := w.why(query)
		said, err := io.ReadAll(body)
		if err != nil || !strings.Contains(string(said), want) || (code == http.StatusOK) != strings.HasPrefix(want, `"`) {
			t.Errorf("%q: %d %s, %v, want %q", query, code, said, err, want)
		}
	}
}

func TestAManagerWithoutAHistoryHasNoWhy(t *testing.T) {
	w := newWhyWorld(t, Options{History: -1})
	if code, _ := w.why("object=secrets/pegasus"); code != http.StatusNotFound {
		t.Errorf("it answers %d", code)
	}
	if _, err := NewManager(w.server.Config(), scheme.Scheme, Options{History: 10, MetricsAddress: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "Bytes is 10") {
		t.Errorf("a history of 10 bytes: %v", err)
	}
}

// A client can only see that a manager hangs if one that does nothing sends something.
func TestWhyShowsASignOfLifeWhileNothingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		manager, err := NewManager(server.Config(), scheme.Scheme, Options{Logger: slog.New(slog.DiscardHandler), MetricsAddress: "127.0.0.1:0"}) // It does not run.
		if err != nil {
			t.Fatal(err)
		}
		if err := manager.Add("labels", func(context.Context, operators.Request) (time.Duration, error) { return 0, nil }, For(&corev1.Secret{})); err != nil {
			t.Fatal(err)
		}
		for query, want := range map[string]int{"&follow=true": 3, "": 0} {
			ctx, cancel := context.WithTimeout(t.Context(), 3*followAlive+time.Second)
			recorder := httptest.NewRecorder()
			manager.why(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, "/debug/why?object=secrets/pegasus&namespace=a"+query, nil))
			cancel()
			answer, signs, _ := strings.Cut(recorder.Body.String(), "\n")
			if signs != strings.Repeat("\n", want) || !json.Valid([]byte(answer)) {
				t.Errorf("with %q it answers %q, and then %q", query, answer, signs)
			}
		}
	})
}
