package hero

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/charts"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/promserver"
	"github.com/bellerophon-io/bellerophon/internal/promtool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// These are the parts of a file for promtool test rules.
type (
	ruleTests struct {
		RuleFiles          []string   `json:"rule_files"`
		EvaluationInterval string     `json:"evaluation_interval"`
		Tests              []ruleTest `json:"tests"`
	}
	ruleTest struct {
		Interval    string       `json:"interval"`
		InputSeries []series     `json:"input_series"`
		Queries     []queryCheck `json:"promql_expr_test"`
	}
	series struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	queryCheck struct {
		Expr    string   `json:"expr"`
		At      string   `json:"eval_time"`
		Samples []sample `json:"exp_samples"`
	}
	sample struct {
		Labels string  `json:"labels"`
		Value  float64 `json:"value"`
	}
)

// targetLabels are the labels that a ServiceMonitor adds to each series. Prometheus renames a series' own label of such a
// name, so that no query would find it.
var targetLabels = map[string]string{
	"namespace": "home", "pod": "operator-0", "container": "operator", "endpoint": "metrics", "instance": "10.0.0.1:8080",
	"job": "bellerophon-metrics", "service": "bellerophon-metrics",
}

// seriesOf returns what Prometheus stores of a metric family that is scraped each minute for half an hour. Counters grow by
// their value each minute, and gauges stay.
func seriesOf(t *testing.T, family *dto.MetricFamily) (all []series) {
	t.Helper()
	for _, metric := range family.GetMetric() {
		add := func(name, pattern string, value float64, more ...string) {
			labels := slices.Clone(more)
			for _, pair := range metric.GetLabel() {
				if targetLabels[pair.GetName()] != "" {
					t.Errorf("%s has the label %s, which Prometheus renames", name, pair.GetName())
				}
				labels = append(labels, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
			}
			for name, value := range targetLabels {
				labels = append(labels, fmt.Sprintf("%s=%q", name, value))
			}
			number := strconv.FormatFloat(value, 'f', -1, 64)
			all = append(all, series{name + "{" + strings.Join(labels, ", ") + "}", fmt.Sprintf(pattern, number)})
		}
		const grows, stays = "0+%sx30", "%sx30"
		switch name := family.GetName(); {
		case metric.Counter != nil:
			add(name, grows, metric.GetCounter().GetValue())
		case metric.Gauge != nil:
			add(name, stays, metric.GetGauge().GetValue())
		case metric.Histogram != nil:
			for _, bucket := range metric.GetHistogram().GetBucket() {
				add(name+"_bucket", grows, float64(bucket.GetCumulativeCount()), fmt.Sprintf("le=%q", strconv.FormatFloat(bucket.GetUpperBound(), 'g', -1, 64)))
			}
			count := float64(metric.GetHistogram().GetSampleCount())
			if buckets := metric.GetHistogram().GetBucket(); len(buckets) == 0 || !math.IsInf(buckets[len(buckets)-1].GetUpperBound(), 1) {
				add(name+"_bucket", grows, count, `le="+Inf"`)
			}
			add(name+"_count", grows, count)
			add(name+"_sum", grows, metric.GetHistogram().GetSampleSum())
		}
	}
	return all
}

// target is a query of a panel, and how the legend names its series.
type target struct{ Expr, LegendFormat string }

func targetsOfTheDashboard(t *testing.T) (all []target) {
	t.Helper()
	content, err := charts.Files.ReadFile("bellerophon-operator/files/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct{ Targets []target }
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		all = append(all, panel.Targets...)
	}
	return all
}

// labelsOfALegend finds the labels in a legend such as {{controller}} {{result}}.
var labelsOfALegend = regexp.MustCompile(`{{\s*(\w+)\s*}}`)

// TestEachQueryOfTheDashboardFindsSeriesOfARunningOperator takes the series of an operator that leads and has a hero with a
// backup. promtool runs each query on them, and looks for the labels of its legend. A real Prometheus scrapes them, and
// answers each query.
func TestEachQueryOfTheDashboardFindsSeriesOfARunningOperator(t *testing.T) {
	w := newWorld(t)
	w.stop()
	_, w.registry, w.stop = w.operator(w.config, controller.Options{MetricsAddress: "127.0.0.1:0", LeaderElection: controller.LeaderElection{Lease: w.namespace + "/operator"}})
	w.create(heroName, map[string]any{"replicas": int64(1), "backup": map[string]any{"volumeClaimName": "backups"}})
	w.ready()
	crons := w.core.BatchV1().CronJobs(w.namespace)
	w.eventually("a backup is complete", func() error {
		cron, err := crons.Get(w.ctx, heroName+"-backup", metav1.GetOptions{})
		if err != nil {
			return err
		}
		now := metav1.Now()
		cron.Status.LastSuccessfulTime = &now
		_, err = crons.UpdateStatus(w.ctx, cron, metav1.UpdateOptions{})
		return err
	})
	w.eventually("the hero has it", func() error {
		if w.hero(heroName).Status.LastBackup == nil {
			return errors.New("it has no last backup")
		}
		return nil
	})
	w.ready()

	rules, err := charts.Files.ReadFile("bellerophon-operator/files/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("by promtool", func(t *testing.T) { playToPromtool(t, w.registry, rules) })
	t.Run("by a real Prometheus", func(t *testing.T) { askPrometheus(t, w.registry, rules) })
}

// playToPromtool lets promtool run the queries of the dashboard on the series of a registry.
func playToPromtool(t *testing.T, registry *prometheus.Registry, rules []byte) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	played := ruleTest{Interval: "1m"}
	for _, family := range families {
		played.InputSeries = append(played.InputSeries, seriesOf(t, family)...)
	}
	for _, target := range targetsOfTheDashboard(t) {
		query := strings.ReplaceAll(target.Expr, "$namespace", targetLabels["namespace"])
		// A quantile without observations is NaN, which is not above -Inf.
		found := queryCheck{Expr: "count((" + query + ") > -Inf) > bool 0", At: "30m", Samples: []sample{{"{}", 1}}}
		played.Queries = append(played.Queries, found)
		for _, label := range labelsOfALegend.FindAllStringSubmatch(target.LegendFormat, -1) {
			named := fmt.Sprintf(`count by (named) (label_replace(%s, "named", "yes", %q, ".+")) > bool 0`, query, label[1])
			played.Queries = append(played.Queries, queryCheck{Expr: named, At: "30m", Samples: []sample{{`{named="yes"}`, 1}}})
		}
	}
	content, err := yaml.Marshal(ruleTests{RuleFiles: []string{"rules.yaml"}, EvaluationInterval: "1m", Tests: []ruleTest{played}})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, content := range map[string][]byte{"dashboard-test.yaml": content, "rules.yaml": rules} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	promtool.Run(t, folder, "test", "rules", "dashboard-test.yaml")
}

// askPrometheus lets a Prometheus scrape a registry, and asks it the queries of the dashboard until each finds something.
func askPrometheus(t *testing.T, registry *prometheus.Registry, rules []byte) {
	t.Helper()
	if _, err := promserver.Find("prometheus"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	operator := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	defer operator.Close()
	configuration := fmt.Sprintf(`global: {scrape_interval: 250ms, evaluation_interval: 250ms}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: operator
    static_configs: [{targets: [%q], labels: {namespace: %q, pod: %q}}]
`, operator.Listener.Addr(), targetLabels["namespace"], targetLabels["pod"])
	err := promserver.Run(t.Context(), promserver.Options{
		Files: map[string][]byte{"prometheus.yml": []byte(configuration), "rules.yaml": rules},
	}, func(ctx context.Context, started promserver.Running) error {
		for _, target := range targetsOfTheDashboard(t) {
			for asked := time.Now(); ; <-time.After(100 * time.Millisecond) {
				found, err := promserver.Query(ctx, started.URL, strings.ReplaceAll(target.Expr, "$namespace", targetLabels["namespace"]))
				if err != nil {
					return err
				}
				if found > 0 {
					break
				}
				if time.Since(asked) > 20*time.Second {
					t.Errorf("%s finds no series", target.Expr)
					break
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
