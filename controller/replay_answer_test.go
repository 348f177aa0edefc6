package controller

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller/recording"
)

func TestCreationsOfOneAttemptMayComeInAnyOrder(t *testing.T) {
	const secrets, one = "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/secrets/one"
	named := func(name, color string) string { return `{"metadata":{"name":"` + name + `"},"color":"` + color + `"}` }
	attempt := &replayedAttempt{}
	for _, sent := range [][3]string{
		{"POST", secrets, named("one", "red")}, {"POST", secrets, named("two", "red")}, {"POST", secrets, named("three", "red")},
		{"PUT", one, named("one", "green")}, {"PUT", one, named("one", "blue")},
	} {
		attempt.exchanges = append(attempt.exchanges, &replayedExchange{Exchange: &recording.Exchange{Method: sent[0], URL: sent[1], Body: []byte(sent[2])}})
	}
	r := newReplay(nil)
	match := func(method, path, body string) string {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://recording"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if found := r.match(attempt, request, []byte(body)); found != nil {
			return string(found.Body)
		}
		return ""
	}
	for _, body := range []string{named("three", "red"), named("one", "red")} {
		if got := match("POST", secrets, body); got != body {
			t.Errorf("%s is the request %s of the recording", body, got)
		}
	}
	if len(attempt.differences) > 0 {
		t.Errorf("another order of creations is the difference %q", attempt.differences)
	}
	match("POST", secrets, named("four", "red")) // Its name is new, so it takes the place of what is left.
	match("PUT", one, named("one", "blue"))
	want := []string{
		"POST " + secrets, `  - metadata.name: "two"`, `  + metadata.name: "four"`,
		"PUT " + one, `  - color: "green"`, `  + color: "blue"`,
	}
	if !slices.Equal(attempt.differences, want) {
		t.Errorf("the differences are %q, want %q", attempt.differences, want)
	}
}

func TestAnAnswerAboutAllGroupsAlsoAnswersQuestionsAboutOne(t *testing.T) {
	const allGroups = "application/json; as=APIGroupDiscoveryList; v=v2; g=apidiscovery.k8s.io"
	version := func(name, kind, resource string) string {
		return `{"version":"` + name + `","resources":[{"resource":"` + resource + `","responseKind":{"version":"` + name + `","kind":"` + kind + `"},"scope":"Namespaced"}]}`
	}
	r := newReplay(nil)
	r.served["/apis"] = &recording.Served{Type: allGroups, Answer: []byte(`{"items":[{"metadata":{"name":"apps"},"versions":[` +
		version("v2", "Horse", "horses") + `,` + version("v1", "Horse", "oldhorses") + `,{"version":"v0","freshness":"Stale"}]}]}`)}
	r.served["/api"] = &recording.Served{Type: allGroups, Answer: []byte(`{"items":[{"versions":[` + version("v1", "Pod", "pods") + `]}]}`)}
	r.served["/apis/apps/v1"] = &recording.Served{Type: "application/vnd.horse", Answer: []byte("as recorded")}
	for path, want := range map[string]string{
		"/apis/apps/v2":  `"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v2","resources":[{"name":"horses"`,
		"/apis/apps":     `"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{"groupVersion":"apps/v2","version":"v2"},{"groupVersion":"apps/v1"`,
		"/api/v1":        `"groupVersion":"v1","resources":[{"name":"pods"`,
		"/apis/apps/v1":  "as recorded", // An answer of the recording comes first.
		"/apis/apps/v0":  `"code":404`,  // The API server did not know it either.
		"/apis/apps/v3":  `"code":404`,
		"/apis/horse/v1": `"code":404`,
		"/apis/horse":    `"code":404`,
		"/api/v2":        `"code":404`,
	} {
		if got := askedAbout(t, r, path); !strings.Contains(got, want) {
			t.Errorf("the answer about %s is %s, want %s", path, got, want)
		}
	}
	for _, broken := range []recording.Served{
		{Type: allGroups, Answer: []byte(`{"items":[`)},
		{Type: allGroups},
		{Type: ";", Answer: r.served["/api"].Answer},
		{Type: "application/json", Answer: []byte(`{"kind":"APIVersions","versions":["v1"]}`)}, // the form of older clients
	} {
		r.served["/api"] = &broken
		if got := askedAbout(t, r, "/api/v1"); !strings.Contains(got, `"code":404`) {
			t.Errorf("after the answer %q of type %q, the answer about /api/v1 is %s", broken.Answer, broken.Type, got)
		}
	}
}

func TestTheOlderFormOfAnAnswerDoesNotReplaceTheAggregatedOne(t *testing.T) {
	aggregated := &recording.Served{Path: "/apis", Type: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", Answer: []byte(
		`{"items":[{"metadata":{"name":"g"},"versions":[{"version":"v1","resources":[{"resource":"pegasi","responseKind":{"version":"v1","kind":"Pegasus"}}]}]}]}`)}
	older := &recording.Served{Path: "/apis", Type: "application/json", Answer: []byte(`{"kind":"APIGroupList","groups":[{"name":"g"}]}`)}
	for _, records := range [][]*recording.Record{{{Served: aggregated}, {Served: older}}, {{Served: older}, {Served: aggregated}}} {
		r := newReplay(nil)
		r.collect(records)
		if got := askedAbout(t, r, "/apis/g/v1"); !strings.Contains(got, `"pegasi"`) {
			t.Errorf("the answer is %s", got)
		}
	}
}

func TestAnAnswerThatBrokeOffBreaksOffAgain(t *testing.T) {
	due := make(chan struct{})
	close(due)
	attempt := &replayedAttempt{exchanges: []*replayedExchange{{Exchange: &recording.Exchange{
		Method: http.MethodGet, URL: "/api/v1/pods", Code: http.StatusOK, AnswerType: "application/json", Answer: []byte(`{"ki`), Err: "unexpected EOF",
	}, due: due}}}
	request, err := http.NewRequestWithContext(context.WithValue(t.Context(), replayedKey{}, attempt), http.MethodGet, "http://recording/api/v1/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := replayTransport{newReplay(nil)}.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(answer.Body); err == nil || err.Error() != "unexpected EOF" || string(body) != `{"ki` {
		t.Errorf("the body is %q, and ends with %v", body, err)
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(into []byte) (int, error) { return len(into), nil }

func TestALongAnswerIsPassedOnAndNotKept(t *testing.T) {
	const length = 2 * mostKept
	var kept []byte
	var why error
	body := &answerBody{ReadCloser: io.NopCloser(io.LimitReader(endless{}, length)), ended: func(answer []byte, err error) { kept, why = answer, err }}
	passed, err := io.Copy(io.Discard, body)
	if err != nil || passed != length {
		t.Errorf("%d bytes are passed on, then %v", passed, err)
	}
	if len(kept) > 0 || why == nil {
		t.Errorf("%d bytes are kept, with the error %v", len(kept), why)
	}
}

// A reconciler that decides otherwise may ask for what the recorded attempts wrote.
func TestAReadThatIsNotInTheRecordingFindsWhatItsWritesLeft(t *testing.T) {
	const all, one = "/api/v1/namespaces/a/configmaps", "/api/v1/namespaces/a/configmaps/x"
	made := []byte(`{"metadata":{"name":"x"},"data":{"horse":"pegasus"}}`)
	r := newReplay(nil)
	for _, step := range []struct {
		of   recording.Exchange
		path string
		want string
	}{
		{recording.Exchange{Method: http.MethodPost, Code: http.StatusConflict, Answer: []byte(`{}`)}, all, `"code":404`},
		{recording.Exchange{Method: http.MethodPost, Code: http.StatusCreated, Answer: made}, all, "pegasus"},
		{recording.Exchange{Method: http.MethodPut, Code: http.StatusOK, Answer: []byte(`{"kind":"Scale"}`)}, one + "/scale", "pegasus"},
		{recording.Exchange{Method: http.MethodPut, Code: http.StatusOK, Answer: []byte(`{"data":{"horse":"arion"}}`)}, one + "/status", "arion"},
		{recording.Exchange{Method: http.MethodDelete, Code: http.StatusOK, Answer: []byte(`{"kind":"Status","status":"Success"}`)}, one, `"code":404`},
	} {
		step.of.AnswerType = "application/json"
		r.learn(step.path, &step.of)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://recording"+one, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.invent(request, nil).Body)
		if err != nil || !strings.Contains(string(body), step.want) {
			t.Errorf("after %s of %s, it is %s: %v", step.of.Method, step.path, body, err)
		}
	}
}

func TestWritesThatAreNotInTheRecordingAreAnsweredAsByAServer(t *testing.T) {
	const all, one = "/api/v1/namespaces/a/configmaps", "/api/v1/namespaces/a/configmaps/x"
	r := newReplay(nil)
	for _, step := range []struct{ method, path, contentType, body, want string }{
		{http.MethodPost, all, "application/json", `{"metadata":{"generateName":"x-"}}`, `"name":"x-replay0"`},
		{http.MethodPut, one, "application/json", `{"data":{"horse":"pegasus"}}`, `"name":"x"`},
		{http.MethodPatch, one, "application/json-patch+json", `[{"op":"replace","path":"/data/horse","value":"arion"}]`, `"data":{"horse":"arion"}`},
		{http.MethodPatch, one, "application/json-patch+json", `[{"op":"remove","path":"/spec"}]`, `"code":404`},
		{http.MethodPatch, one, "application/merge-patch+json", `{"data":{"other":"y"}}`, `"data":{"horse":"arion","other":"y"}`},
		{http.MethodGet, one, "", ``, `"data":{"horse":"arion","other":"y"}`},
	} {
		request, err := http.NewRequestWithContext(t.Context(), step.method, "http://recording"+step.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", step.contentType)
		body, err := io.ReadAll(r.invent(request, []byte(step.body)).Body)
		if err != nil || !strings.Contains(string(body), step.want) {
			t.Errorf("the answer to %s %s is %s: %v, want %s in it", step.method, step.body, body, err, step.want)
		}
	}
}

// askedAbout returns the answer of a replay to a question about resources.
func askedAbout(t *testing.T, r *replay, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://recording"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := replayTransport{r}.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
