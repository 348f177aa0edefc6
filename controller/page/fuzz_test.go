package page

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// Every reader of the page may ask anything. The answer is JSON, or the question was bad.
func FuzzAnyQuestionAboutThePastIsAnsweredOrBad(f *testing.F) {
	shown := NewPast(recorded(f, brought(f, 0, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "stable", Name: "pegasus", ResourceVersion: "1"}}),
		seen(time.Second, "pegasus", "1", streams.Applied, streams.Added), recording.Record{At: start.Add(time.Minute).UnixNano(), Removed: []streams.Key{keyOf("pegasus")}}), scheme.Scheme, false)
	for _, path := range []string{"span", "items", "state", "tree", "why", "", "../etc"} {
		f.Add(path, "configmaps/pegasus", "stable", "9007199254740993", "-1", "1.7", "3")
	}
	f.Add("state", "", "", "253402300800000", "", "", "") // The year 10000, which JSON does not have.
	f.Fuzz(func(t *testing.T, path, object, namespace, at, from, after, limit string) {
		query := url.Values{"object": {object}, "namespace": {namespace}, "at": {at}, "from": {from}, "to": {at}, "after": {after}, "limit": {limit}, "search": {namespace}}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		request.URL.Path, request.URL.RawQuery = PastRoot+path, query.Encode()
		recorder := httptest.NewRecorder()
		shown.ServeHTTP(recorder, request)
		switch recorder.Code {
		case http.StatusOK:
			if !json.Valid(recorder.Body.Bytes()) {
				t.Errorf("%s is answered with %s", request.URL, recorder.Body)
			}
		case http.StatusBadRequest, http.StatusNotFound:
		default:
			t.Errorf("%s is %d %s", request.URL, recorder.Code, recorder.Body)
		}
	})
}
