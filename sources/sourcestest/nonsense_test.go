package sourcestest_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestAnAnswerOfTheTestTakesThePlaceOfTheServers(t *testing.T) {
	const html = "<html>Sign in</html>"
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		server := newServer(t, sourcestest.Options{Script: []sourcestest.Fault{
			{Action: sourcestest.Answer, Body: html, ContentType: "text/html"},
			{Action: sourcestest.Answer},
		}})
		must(t, server.Create(configMap("x", "1")))
		for _, want := range []struct{ body, contentType string }{{html, "text/html"}, {"", "application/json"}} {
			request, err := http.NewRequestWithContext(t.Context(), method, "http://sourcestest/api/v1/namespaces/a/configmaps/x", nil)
			must(t, err)
			answer, err := server.RoundTrip(request)
			must(t, err)
			body, err := io.ReadAll(answer.Body)
			must(t, err)
			if answer.StatusCode != http.StatusOK || string(body) != want.body || answer.Header.Get("Content-Type") != want.contentType {
				t.Errorf("the answer to %s is %s %v %q, want %q", method, answer.Status, answer.Header, body, want.body)
			}
		}
		must(t, server.Get(configMap("x"))) // The object was not changed.
		if got := server.Counts().Faults[sourcestest.Answer]; got != 2 {
			t.Errorf("%d requests got this answer, want 2", got)
		}
	}
}

func TestARefusalSaysWhenToTryAgain(t *testing.T) {
	for _, code := range []int{410, 429, 500, 503} {
		server := newServer(t, sourcestest.Options{Script: []sourcestest.Fault{
			{Action: sourcestest.Refuse, Code: code, RetryAfter: time.Second, Times: sourcestest.Always},
		}})
		client := &http.Client{Transport: server}
		for range 3 {
			answer, err := client.Get("http://sourcestest/api/v1/configmaps")
			must(t, err)
			must(t, answer.Body.Close())
			if got := answer.Header.Get("Retry-After"); answer.StatusCode != code || got != "1" {
				t.Errorf("the answer is %s with Retry-After %q, want %d and 1", answer.Status, got, code)
			}
		}
	}
}

func TestAWatchFailsWithTheCodeOfTheTest(t *testing.T) {
	for given, want := range map[int]int32{0: 500, 403: 403, 429: 429, 504: 504} {
		synctest.Test(t, func(t *testing.T) {
			server := newServer(t, sourcestest.Options{Script: []sourcestest.Fault{{Action: sourcestest.Fail, Code: given, Nth: 2}}})
			opened, err := api(t, server).Resource(configMaps).Watch(t.Context(), metav1.ListOptions{})
			must(t, err)
			for _, name := range []string{"a", "b", "c"} {
				must(t, server.Create(configMap(name)))
			}
			var got []watch.Event
			for event := range opened.ResultChan() {
				got = append(got, event)
			}
			if len(got) != 2 || got[0].Type != watch.Added || got[1].Type != watch.Error {
				t.Fatalf("the watch sent %v", got)
			}
			if status, is := got[1].Object.(*metav1.Status); !is || status.Code != want || status.Status != metav1.StatusFailure {
				t.Errorf("the error is %v, want code %d", got[1].Object, want)
			}
		})
	}
}

// Each seed also draws the faults outside DefaultRates, if Rates has them.
func TestTheSeedDrawsTheFaultsThatDefaultRatesLeaveOut(t *testing.T) {
	rates := map[sourcestest.Action]float64{
		sourcestest.Hang: 0.3, sourcestest.Answer: 0.3, sourcestest.Silence: 0.3, sourcestest.Fail: 0.3,
	}
	for action := range rates {
		if rate := sourcestest.DefaultRates()[action]; rate != 0 {
			t.Errorf("DefaultRates has %v for %v", rate, action)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{Seed: 3, Rates: rates})
		for i := range 40 {
			client := &http.Client{Transport: server, Timeout: time.Second}
			for _, query := range []string{"", "?watch=true"} {
				answer, err := client.Get("http://sourcestest/api/v1/configmaps" + query)
				if err == nil {
					must(t, server.Create(configMap(fmt.Sprint(i, query != ""))))
					_, _ = io.ReadAll(answer.Body) // The body may end by any of the faults.
					must(t, answer.Body.Close())
				}
			}
		}
		faults := server.Counts().Faults
		for action := range rates {
			if faults[action] == 0 {
				t.Errorf("%v never happened: %v", action, faults)
			}
		}
	})
}
