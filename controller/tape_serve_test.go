package controller

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller/recording"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var errSeen = errors.New("all is seen")

func TestARecordingIsServedWhileItGrowsAndWithoutSecrets(t *testing.T) {
	w := newWhyWorld(t, Options{Recording: &recording.Options{Dir: t.TempDir()}})
	if err := w.server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "pegasus"}, Data: map[string][]byte{"token": []byte(canary)}}); err != nil {
		t.Fatal(err)
	}
	code, answer := w.get("/debug/recording")
	if code != http.StatusOK {
		t.Fatalf("it answers %d", code)
	}
	second := false
	err := recording.Receive(answer, func(batch recording.Batch) error {
		for _, record := range batch.Ready {
			if record.Object != nil && (bytes.Contains(record.Object.Body, []byte(canary)) || bytes.Contains(record.Object.Body, []byte(base64.StdEncoding.EncodeToString([]byte(canary))))) {
				t.Errorf("the body of %s has the value of a Secret", record.Object.Key)
			}
			switch {
			case record.Start == nil:
			case record.Start.Name().Name == "arion":
				return errSeen
			case !second: // The recording goes on.
				second = true
				return w.server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "arion"}})
			}
		}
		return nil
	})
	if !errors.Is(err, errSeen) {
		t.Errorf("it ends with %v before the second attempt", err)
	}
}

func TestARecordingEndsWithTheManagerAndHasFewReaders(t *testing.T) {
	w := newWhyWorld(t, Options{Recording: &recording.Options{Dir: t.TempDir()}})
	var answers []io.Reader
	for range mostRecipients {
		code, answer := w.get("/debug/recording")
		if code != http.StatusOK {
			t.Fatalf("it answers %d", code)
		}
		answers = append(answers, answer)
	}
	if code, answer := w.get("/debug/recording"); code != http.StatusServiceUnavailable {
		said, _ := io.ReadAll(answer)
		t.Errorf("the reader after the last one gets %d %s", code, said)
	}
	w.stop()
	for _, answer := range answers {
		if err := recording.Receive(answer, func(recording.Batch) error { return nil }); err != nil {
			t.Error(err)
		}
	}
}

func TestARecordingIsRefusedWithAWayOut(t *testing.T) {
	w := newWhyWorld(t, Options{})
	code, answer := w.get("/debug/recording")
	if said, _ := io.ReadAll(answer); code != http.StatusNotFound || !strings.Contains(string(said), "give it --record, or set Options.Recording") {
		t.Errorf("without a recording it says %d %s", code, said)
	}
	manager := &Manager{tape: &tape{}}
	for _, foreign := range []struct{ from, host string }{
		{"192.0.2.1:50000", "127.0.0.1:8080"}, // another machine
		{"127.0.0.1:50000", "evil.example"},   // a page whose name leads to this machine
		{"somewhere", "127.0.0.1:8080"},
	} {
		request := httptest.NewRequest(http.MethodGet, "/debug/recording", nil)
		request.RemoteAddr, request.Host = foreign.from, foreign.host
		got := httptest.NewRecorder()
		manager.serveRecording(got, request)
		if got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "protect it, or forward a port to it") {
			t.Errorf("from %s to %s: %d %s", foreign.from, foreign.host, got.Code, got.Body)
		}
	}
	for _, own := range []struct{ from, host string }{{"127.0.0.1:50000", "localhost:8080"}, {"[::1]:50000", "[::1]:8080"}, {"[::ffff:127.0.0.1]:50000", "127.0.0.1"}} {
		request := httptest.NewRequest(http.MethodGet, "/debug/recording", nil)
		request.RemoteAddr, request.Host = own.from, own.host
		if !isLocal(request) {
			t.Errorf("from %s to %s is refused", own.from, own.host)
		}
	}
}
