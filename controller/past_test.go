package controller

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/controller/page"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// read asks a server and decodes its answer. It returns the text, too.
func read[T any](t *testing.T, get func(path string) (int, io.ReadCloser), path string) (answer T, text string) {
	t.Helper()
	code, body := get(path)
	all, err := io.ReadAll(body)
	if err != nil || code != http.StatusOK || json.Unmarshal(all, &answer) != nil {
		t.Fatalf("%s is %d %s, %v", path, code, all, err)
	}
	return answer, string(all)
}

type pastItems struct{ Attempts []any }

func TestTheRecordedPastSaysWhatThePresentSaidAndNoValue(t *testing.T) {
	dir := t.TempDir()
	w := newWhyWorld(t, Options{Recording: &recording.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)}})
	for _, name := range []string{"pegasus", "bellerophon"} {
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Data: map[string][]byte{"token": []byte(canary)}}
		if err := w.server.Create(made); err != nil {
			t.Fatal(err)
		}
	}
	const of = "object=secret/pegasus&namespace=a"
	var live history.Answer
	for began := time.Now(); len(live.Controllers) == 0 || len(live.Controllers[0].Attempts) < 2; <-time.After(20 * time.Millisecond) {
		if live, _ = read[history.Answer](t, w.get, "/debug/why?"+of); time.Since(began) > 10*time.Second {
			t.Fatalf("the attempts do not come: %+v", live)
		}
	}
	now := time.Now().UnixMilli()
	said := ""
	for began := time.Now(); ; <-time.After(50 * time.Millisecond) { // The writer writes once a second.
		code, body := w.get(fmt.Sprintf("/debug/past/items?from=%d&to=%d", now-60_000, now))
		text, err := io.ReadAll(body)
		var items pastItems
		if code == http.StatusOK && err == nil && json.Unmarshal(text, &items) == nil && len(items.Attempts) >= 4 {
			said += string(text)
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("the recording has %s", text)
		}
	}
	past, text := read[history.Answer](t, w.get, fmt.Sprintf("/debug/past/why?at=%d&%s", now, of))
	said += text
	comparePast(t, past, live)
	span, text := read[map[string]any](t, w.get, "/debug/past/span")
	if said += text; span["goesOn"] != true || fmt.Sprint(span["controllers"]) != "[map[kind:Secret name:labels]]" {
		t.Errorf("the span is %s", text)
	}
	roots, text := read[introspection.Roots](t, w.get, fmt.Sprintf("/debug/past/tree?at=%d&search=pega", now))
	if said += text; roots.Total != 1 || roots.Objects[0].Name != "pegasus" || roots.Objects[0].Ready != introspection.Ready {
		t.Errorf("the roots are %s", text)
	}
	_, text = read[introspection.Node](t, w.get, fmt.Sprintf("/debug/past/tree?at=%d&%s", now, of))
	said += text
	state, text := read[map[string]any](t, w.get, fmt.Sprintf("/debug/past/state?at=%d", now))
	if said += text; !strings.Contains(text, `"kind":"Secret","objects":2`) || !strings.Contains(text, `"attempts":4`) {
		t.Errorf("the state is %v", state)
	}
	if strings.Contains(said, canary) || !strings.Contains(said, `"verb":"patch"`) || !strings.Contains(said, `"change":"updated","kind":"Secret"`) {
		t.Errorf("it shows a value, or too little:\n%s", said)
	}

	// At an earlier time there is less, and a stranger question has an answer with a way out.
	if before, _ := read[introspection.Roots](t, w.get, fmt.Sprintf("/debug/past/tree?at=%d", now-3_600_000)); before.Total != 0 {
		t.Errorf("an hour before it has %+v", before)
	}
	for question, want := range map[string]string{
		"state": "at is missing", "state?at=x": "give milliseconds", "state?at=-5": "give milliseconds", "state?at=99999999999999999999": "give milliseconds",
		"items?from=5": "15m0s apart", "items?from=9&to=5": "in this order", "items?from=1&to=9999999999": "15m0s apart", "items?from=1&to=2&limit=0": "allowed is 1 to 5000",
		"items?from=1&to=2&limit=1000000": "allowed is 1 to 5000", "items?from=1&to=2&after=x": "give next", "items?from=1&to=2&after=5.0": "give next",
		"tree?at=5&limit=1001": "allowed is 1 to 1000", "tree?at=5&object=pegasus": "give KIND/NAME", "tree?at=5&object=secret/pegasus": "has no secret/pegasus",
		"why?at=5&object=pegasus": "give KIND/NAME", "why?object=secret/x": "milliseconds since 1970", "why?at=5&object=service/x": "no controller reconciles service",
		"other": "not found", "": "not found", "span/": "not found",
	} {
		code, body := w.get("/debug/past/" + question)
		if text, err := io.ReadAll(body); err != nil || code/100 != 4 || !strings.Contains(string(text), want) {
			t.Errorf("%s: %d %s, %v, want %s", question, code, text, err, want)
		}
	}

	// A file of the recording shows the same without the operator.
	w.stop()
	<-time.After(100 * time.Millisecond)
	whole, err := recording.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "saved")
	if err := whole.Save(file); err != nil {
		t.Fatal(err)
	}
	again, text := read[history.Answer](t, served(t, page.NewPast(file, scheme.Scheme, false)), fmt.Sprintf("/debug/past/why?at=%d&%s", now, of))
	if comparePast(t, again, live); strings.Contains(text, canary) {
		t.Errorf("the file shows a value: %s", text)
	}
	if err := os.WriteFile(file, []byte("a poem"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, body := served(t, page.NewPast(file, scheme.Scheme, false))("/debug/past/span"); code != http.StatusInternalServerError {
		text, _ := io.ReadAll(body)
		t.Errorf("a file that is no recording: %d %s", code, text)
	}
}

// comparePast compares what a recording has of an object with what the manager remembered.
func comparePast(t *testing.T, past, live history.Answer) {
	t.Helper()
	if len(past.Controllers) != 1 || len(past.Controllers[0].Attempts) != len(live.Controllers[0].Attempts) {
		t.Fatalf("the recording has %+v, want %+v", past, live)
	}
	for i, was := range live.Controllers[0].Attempts {
		is := past.Controllers[0].Attempts[i]
		if is.ID != was.ID || is.Outcome != was.Outcome || is.Attempt != was.Attempt || len(is.Causes) != len(was.Causes) || len(is.Writes) != len(was.Writes) || len(is.Calls) != len(was.Calls) {
			t.Errorf("attempt %d is %+v, want %+v", i, is, was)
			continue
		}
		for j := range was.Causes {
			if is, was := is.Causes[j], was.Causes[j]; is.Object != was.Object || is.Change != was.Change || is.Event != was.Event || is.WrittenBy != was.WrittenBy || strings.Join(is.Fields, ",") != strings.Join(was.Fields, ",") {
				t.Errorf("cause %d of attempt %d is %+v, want %+v", j, i, is, was)
			}
		}
		for j := range was.Writes {
			if is, was := is.Writes[j], was.Writes[j]; is.Object != was.Object || is.Verb != was.Verb || strings.Join(is.Fields, ",") != strings.Join(was.Fields, ",") || is.Seen == nil {
				t.Errorf("write %d of attempt %d is %+v, want %+v", j, i, is, was)
			}
		}
	}
}

// served returns a function that asks a handler.
func served(t *testing.T, handler http.Handler) func(path string) (int, io.ReadCloser) {
	t.Helper()
	return func(path string) (int, io.ReadCloser) {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return recorder.Code, recorder.Result().Body
	}
}
