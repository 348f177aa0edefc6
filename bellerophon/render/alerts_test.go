package render_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/charts"
	"github.com/bellerophon-io/bellerophon/internal/promtool"
	"sigs.k8s.io/yaml"
)

func chartFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := charts.Files.ReadFile("bellerophon-operator/files/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestEachAlertFiresInItsCase lets promtool play the series of testdata/alerts-test.yaml.
func TestEachAlertFiresInItsCase(t *testing.T) {
	folder := t.TempDir()
	played, err := os.ReadFile(filepath.Join("testdata", "alerts-test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	alerts := chartFile(t, "alerts.yaml")
	for name, content := range map[string][]byte{"alerts.yaml": alerts, "alerts-test.yaml": played} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllSubmatch(alerts, -1) {
		if !strings.Contains(string(played), fmt.Sprintf("labels: 'ALERTS{alertname=%q", alert[1])) {
			t.Errorf("no case plays %s", alert[1])
		}
	}
	promtool.Run(t, folder, "check", "rules", "alerts.yaml")
	promtool.Run(t, folder, "test", "rules", "alerts-test.yaml")
}

func TestTheDashboardAndTheAlertsAskForMetricsThatThereAre(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(chartFile(t, "dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	var documented []byte
	for _, page := range []string{"metrics.md", "heroes.md"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		documented = append(documented, content...)
	}
	metric := regexp.MustCompile(`\b(?:bellerophon|controller_runtime|workqueue|rest_client|leader_election|process)_\w+`)
	exists := func(query string) {
		t.Helper()
		names := metric.FindAllString(query, -1)
		if len(names) == 0 {
			t.Errorf("the query %s names no metric", query)
		}
		for _, name := range names {
			if base := strings.TrimSuffix(name, "_bucket"); !strings.Contains(string(documented), "`"+base+"`") && !strings.HasPrefix(base, "process_") {
				t.Errorf("the query %s asks for %s, which neither docs/metrics.md nor docs/heroes.md has", query, name)
			}
		}
	}
	var rules strings.Builder
	rules.WriteString("groups:\n- name: panels\n  rules:\n")
	for i, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			exists(target.Expr)
			query := strings.ReplaceAll(target.Expr, "$namespace", "home")
			fmt.Fprintf(&rules, "  - record: panel%d\n    expr: %q\n", i, query)
		}
	}
	var alerts struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	if err := yaml.Unmarshal(chartFile(t, "alerts.yaml"), &alerts); err != nil {
		t.Fatal(err)
	}
	for _, group := range alerts.Groups {
		for _, rule := range group.Rules {
			exists(rule.Expr)
		}
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "panels.yaml"), []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool.Run(t, folder, "check", "rules", "panels.yaml")
}

func TestMonitoringAndTheNetworkPolicyAreThereOnRequest(t *testing.T) {
	enabled := map[string]any{"enabled": true}
	manifests := operator(t, map[string]any{"serviceMonitor": enabled, "prometheusRule": enabled, "dashboard": enabled, "networkPolicy": enabled, "webhooks": enabled})
	found := names(manifests.Objects)
	for _, want := range []string{
		"Service home/bellerophon-metrics", "ServiceMonitor home/bellerophon", "PrometheusRule home/bellerophon",
		"ConfigMap home/bellerophon-dashboard", "NetworkPolicy home/bellerophon",
	} {
		if !slices.Contains(found, want) {
			t.Errorf("the chart has no %s: %q", want, found)
		}
	}
	for _, object := range manifests.Objects {
		if object.GetKind() == "PrometheusRule" {
			content, err := yaml.Marshal(object.Object)
			if err != nil || !strings.Contains(string(content), "{{ $labels.name }}") {
				t.Errorf("the rule is %s, %v", content, err)
			}
		}
	}
}
