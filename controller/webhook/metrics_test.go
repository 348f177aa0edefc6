package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/internal/golden"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// series returns the values of a registry by name and labels; of histograms, the number of values.
func series(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetName() + "=" + label.GetValue()
			}
			switch {
			case metric.GetHistogram() != nil:
				values[name] = float64(metric.GetHistogram().GetSampleCount())
			case metric.GetCounter() != nil:
				values[name] = metric.GetCounter().GetValue()
			default:
				values[name] = metric.GetGauge().GetValue()
			}
		}
	}
	return values
}

func TestRequestsAreCountedByWebhookOperationAndCode(t *testing.T) {
	registry := prometheus.NewRegistry()
	server, err := webhook.New(&rest.Config{Host: "http://127.0.0.1:1"}, types(), webhook.Options{
		Service: "heroes/webhooks", Registry: registry, Logger: (&journal{}).logger(),
	})
	must(t, err)
	must(t, webhook.Validate(server, func(_ context.Context, request webhook.Request[*Hero]) error {
		switch request.New.Spec.Horse {
		case "denied":
			return errors.New("no")
		case "taken":
			return apierrors.NewConflict(corev1.Resource("x"), "y", errors.New("no"))
		case "odd":
			return &apierrors.StatusError{}
		case "panic":
			panic("canary")
		}
		return nil
	}))
	must(t, webhook.Convert(server, func(_ context.Context, from *Hero, to *HeroV2) error {
		if from.Spec.Horse == "denied" {
			return errors.New("no")
		}
		return nil
	}, toV1))
	handler := server.Handler()
	for _, horse := range []string{"arion", "arion", "denied", "taken", "odd", "panic"} {
		post(handler, validatePath, review(admissionv1.Create, heroJSON("", `"horse":"`+horse+`"`), ""))
	}
	post(handler, validatePath, review(admissionv1.Update, heroJSON("", ""), heroJSON("", "")))
	post(handler, validatePath, review("canary", heroJSON("", ""), ""))
	post(handler, validatePath, "canary")
	post(handler, "/canary", "canary")
	for _, horse := range []string{"arion", "denied"} {
		post(handler, "/convert", fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"7","desiredAPIVersion":"%s/v2","objects":[%s]}}`,
			heroes, heroJSON("", `"horse":"`+horse+`"`)))
	}
	const of, seconds, running = "controller_runtime_webhook_requests_total", "controller_runtime_webhook_latency_seconds", "controller_runtime_webhook_requests_in_flight"
	want := map[string]float64{
		of + " code=200 operation=CREATE webhook=" + validatePath:   2,
		of + " code=403 operation=CREATE webhook=" + validatePath:   1,
		of + " code=409 operation=CREATE webhook=" + validatePath:   1,
		of + " code=other operation=CREATE webhook=" + validatePath: 1,
		of + " code=500 operation=CREATE webhook=" + validatePath:   1,
		of + " code=200 operation=UPDATE webhook=" + validatePath:   1,
		of + " code=200 operation=unknown webhook=" + validatePath:  1,
		of + " code=400 operation=unknown webhook=" + validatePath:  1,
		of + " code=200 operation=CONVERT webhook=/convert":         1,
		of + " code=422 operation=CONVERT webhook=/convert":         1,
		seconds + " webhook=" + validatePath:                        9,
		seconds + " webhook=/convert":                               2,
		running + " webhook=" + validatePath:                        0,
		running + " webhook=/convert":                               0,
		"bellerophon_webhook_certificate_rotations_total":           0,
		"bellerophon_log_records_dropped_total":                     0,
	}
	got := series(t, registry)
	for name, value := range want {
		if has, found := got[name]; !found || has != value {
			t.Errorf("%s is %v (%t), want %v", name, has, found, value)
		}
	}
	for name := range got {
		if _, known := want[name]; !known {
			t.Errorf("there is also %s", name)
		}
	}
	if _, err := webhook.New(&rest.Config{}, types(), webhook.Options{Service: "a/b", Registry: registry}); err == nil || !strings.Contains(err.Error(), "a Registry of its own") {
		t.Errorf("two servers share a registry: %v", err)
	}
}

// fromPage matches a row of docs/metrics.md: name, type and labels.
var fromPage = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\w+) \\| ([a-z, ]*) ?\\|")

func TestThePageOfMetricsHasEachMetricOfAWebhookServerAndRotationsAreCounted(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	must(t, err)
	_, section, found := strings.Cut(string(page), "\n## Webhooks\n")
	section, _, ends := strings.Cut(section, "\n## ")
	if !found || !ends {
		t.Fatal("docs/metrics.md has no section Webhooks")
	}
	documented := map[string]string{}
	for _, row := range fromPage.FindAllStringSubmatch(section, -1) {
		labels := strings.FieldsFunc(row[3], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(labels)
		documented[row[1]] = fmt.Sprint(row[2], " ", labels)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sourcestest.Options{}, webhook.Certificates{})
		r.registry = prometheus.NewRegistry()
		server := r.launch()
		r.pass(30 * time.Second)
		post(server.Handler(), "/validate/core/v1/configmap", "", func(request *http.Request) { request.Method = http.MethodGet })
		const expiry, rotations = "bellerophon_webhook_certificate_expiry_timestamp_seconds", "bellerophon_webhook_certificate_rotations_total"
		for round := range 3 {
			held, _ := r.present(0)
			if got := series(t, r.registry); got[expiry] != float64(held.NotAfter.Unix()) || got[rotations] != float64(round) {
				t.Errorf("after %d rotations, the expiry is %v, want %d, and rotations are %v", round, got[expiry], held.NotAfter.Unix(), got[rotations])
			}
			r.pass(41 * time.Minute)
		}
		r.end()
		families, err := r.registry.Gather()
		must(t, err)
		var names []string
		for _, family := range families {
			var labels []string
			for _, label := range family.GetMetric()[0].GetLabel() {
				labels = append(labels, label.GetName())
			}
			slices.Sort(labels)
			if served := fmt.Sprint(strings.ToLower(family.GetType().String()), " ", labels); documented[family.GetName()] != served {
				t.Errorf("docs/metrics.md has %q for %s, want %q", documented[family.GetName()], family.GetName(), served)
			} else {
				names = append(names, family.GetName()+"\t"+served)
			}
			delete(documented, family.GetName())
		}
		golden.Names(t, "../../docs/names/metrics-webhooks.txt", names)
		for name := range documented {
			t.Errorf("docs/metrics.md has %s, which no server serves", name)
		}
	})
}
