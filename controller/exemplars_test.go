package controller

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// exemplar matches the exemplar of a bucket in OpenMetrics.
var exemplar = regexp.MustCompile(`(?m)^(\w+)_bucket\{.*\} \d+ # \{(.*)\} `)

// scrape returns the metrics of a manager, in the format that Prometheus asks for.
func (w *whyWorld) scrape() string {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.address+"/metrics", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if kind := answer.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/openmetrics-text") || !strings.HasSuffix(string(content), "# EOF\n") {
		w.t.Fatalf("the scrape is %s", kind)
	}
	return string(content)
}

func TestAnExemplarOfAScrapeNamesAnAttemptThatWhyKnows(t *testing.T) {
	w := newWhyWorld(t, Options{})
	if err := w.server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "pegasus"}}); err != nil {
		t.Fatal(err)
	}
	var found [][]string
	for scraped := ""; len(found) == 0; found = exemplar.FindAllStringSubmatch(scraped, -1) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("no exemplar in %s", scraped)
		}
		if scraped = w.scrape(); strings.Contains(scraped, "pegasus") {
			t.Fatalf("the metrics name an object:\n%s", scraped)
		}
	}
	var histograms []string
	for _, each := range found {
		histograms = append(histograms, each[1])
		id := strings.TrimSuffix(strings.TrimPrefix(each[2], `reconcile_id="`), `"`)
		code, body := w.why("attempt=" + id)
		var answer history.Answer
		if err := json.NewDecoder(body).Decode(&answer); err != nil || code != http.StatusOK || len(answer.Controllers) != 1 {
			t.Fatalf("%d %+v %v", code, answer, err)
		}
		if !slices.ContainsFunc(answer.Controllers[0].Attempts, func(a history.Attempt) bool { return a.ID == id && a.Name == "pegasus" }) {
			t.Errorf("why does not know %s: %+v", id, answer)
		}
	}
	slices.Sort(histograms)
	if got := slices.Compact(histograms); !slices.Equal(got, []string{"controller_runtime_reconcile_time_seconds", "workqueue_queue_duration_seconds"}) {
		t.Errorf("exemplars are in %q", got)
	}
	if code, body := w.why("attempt=0123456789abcdef"); code != http.StatusNotFound {
		text, _ := io.ReadAll(body)
		t.Errorf("an attempt that never was: %d %s", code, text)
	}
}

// metricsWith returns the metrics of a manager that does not run.
func metricsWith(t testing.TB, options Options) (*metrics, *prometheus.Registry) {
	t.Helper()
	options.Registry, options.MetricsAddress = prometheus.NewRegistry(), "127.0.0.1:0"
	made, err := NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, scheme.Scheme, options)
	if err != nil {
		t.Fatal(err)
	}
	return made.metrics, options.Registry
}

// exemplarsOf returns the IDs of the exemplars of the durations of reconciles, shortest first.
func exemplarsOf(t *testing.T, registry *prometheus.Registry) (ids []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_time_seconds" {
			continue
		}
		for _, bucket := range family.GetMetric()[0].GetHistogram().GetBucket() {
			if of := bucket.GetExemplar(); of != nil {
				ids = append(ids, of.GetLabel()[0].GetValue())
			}
		}
	}
	return ids
}

func TestABucketGetsAnExemplarOnceASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made, registry := metricsWith(t, Options{})
		observe := func(took time.Duration) string {
			result := operators.Result{Request: operators.Request{Controller: "labels", NamespacedName: types.NamespacedName{Name: "pegasus"}}, Started: time.Now(), Duration: took, Outcome: operators.Succeeded}
			made.result(result)
			return operators.AttemptID(result.Controller, result.NamespacedName, result.Started)
		}
		first := observe(time.Millisecond)
		<-time.After(10 * time.Millisecond)
		observe(time.Millisecond)
		slow := observe(time.Hour) // Its bucket has none so far.
		if got, want := exemplarsOf(t, registry), []string{first, slow}; !slices.Equal(got, want) {
			t.Errorf("the exemplars are %q, want %q", got, want)
		}
		<-time.After(exemplarEvery)
		later := observe(time.Millisecond)
		if got, want := exemplarsOf(t, registry), []string{later, slow}; !slices.Equal(got, want) {
			t.Errorf("a second later the exemplars are %q, want %q", got, want)
		}
	})
}

func TestWithoutAHistoryThereAreNoExemplars(t *testing.T) {
	made, registry := metricsWith(t, Options{History: -1})
	made.result(operators.Result{Request: operators.Request{Controller: "labels"}, Started: time.Now(), Outcome: operators.Succeeded})
	if got := exemplarsOf(t, registry); got != nil {
		t.Errorf("the exemplars are %q", got)
	}
}

// BenchmarkResults measures the metrics of a result, of 1,000 objects whose attempts end at 10,000 a second.
func BenchmarkResults(b *testing.B) {
	for name, options := range map[string]Options{"with exemplars": {}, "without exemplars": {History: -1}} {
		b.Run(name, func(b *testing.B) {
			made, _ := metricsWith(b, options)
			began, i := time.Now(), 0
			result := operators.Result{Request: operators.Request{Controller: "labels", NamespacedName: types.NamespacedName{Namespace: "a", Name: "pegasus"}}, Outcome: operators.Succeeded}
			b.ReportAllocs()
			for b.Loop() {
				i++
				result.Started = began.Add(time.Duration(i) * 100 * time.Microsecond)
				result.Duration, result.Queued = time.Duration(i%40)*time.Millisecond, time.Duration(i%7)*time.Millisecond
				made.result(result)
			}
		})
	}
}
