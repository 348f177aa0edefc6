package controller

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestANoteIsCutAtARune(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	for name, test := range map[string]struct{ note, want string }{
		"none":                                  {"", ""},
		"as long as it may be":                  {a(1024), a(1024)},
		"one byte too long":                     {a(1025), a(1021) + "…"},
		"with a rune where it is cut":           {a(1020) + "ü" + a(10), a(1020) + "…"},
		"with a longer rune where it is cut":    {a(1018) + "🐎🐎", a(1018) + "…"},
		"with a rune before where it is cut":    {a(1019) + "ü" + a(10), a(1019) + "ü…"},
		"with bytes that are no runes":          {a(10) + "\xff\xfe" + a(10), a(10) + "?" + a(10)},
		"with a rune that ends where it may be": {a(1020) + "🐎", a(1020) + "🐎"},
	} {
		got := cut(test.note, maxNote)
		if got != test.want || len(got) > maxNote || !utf8.ValidString(got) {
			t.Errorf("%s: it is %q of %d bytes, want %q", name, got, len(got), test.want)
		}
	}
}

// received is an API server that sends each created Event to a channel, and answers no request.
type received struct{ events chan<- *eventsv1.Event }

func (r received) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPost {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return nil, err
		}
		r.events <- decoded.(*eventsv1.Event)
	}
	<-request.Context().Done()
	return nil, request.Context().Err()
}

func TestAnEventIsSentWithANoteThatIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan *eventsv1.Event, 2)
		m, err := NewManager(&rest.Config{Transport: received{sent}}, scheme.Scheme, Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		nothing := func(context.Context, operators.Request) (time.Duration, error) { return 0, nil }
		if err := m.Add("pods", nothing, For(&corev1.Pod{})); err != nil {
			t.Fatal(err)
		}
		group := lifecycle.New(t.Context())
		group.Go("manager", m.Run)
		synctest.Wait()
		about := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}
		m.Recorder().Warning(about, "Long", "Test", strings.Repeat("ä", 1000))
		if event, want := <-sent, strings.Repeat("ä", 510)+"…"; event.Note != want {
			t.Errorf("the note is %q of %d bytes, want %q", event.Note, len(event.Note), want)
		}
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// The API server defines the limit.
func TestTheServerTakesANoteThatIsCutAndNoLongerOne(t *testing.T) {
	config, namespace := clustertest.Shared(t).AdminConfig(), clustertest.Namespace(t)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("ä", 600)
	for name, test := range map[string]struct {
		note    string
		refused bool
	}{"cut": {cut(long, maxNote), false}, "long": {long[:maxNote] + "a", true}} {
		_, err := client.EventsV1().Events(namespace).Create(t.Context(), &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			EventTime:  metav1.NowMicro(), ReportingController: "tester", ReportingInstance: "tester", Action: "Test", Reason: "Test", Type: corev1.EventTypeNormal,
			Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "x"}, Note: test.note,
		}, metav1.CreateOptions{})
		if apierrors.IsInvalid(err) != test.refused || err != nil && !test.refused {
			t.Errorf("the error for a note of %d bytes is %v", len(test.note), err)
		}
	}
}
