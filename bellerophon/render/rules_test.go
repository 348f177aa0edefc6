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

// rule is a rule of rules.yaml: a recording rule or an alert.
type rule struct {
	Record, Alert, Expr string
	Labels, Annotations map[string]string
}

// rules returns the rules of the chart, and their text.
func rules(t *testing.T) (all []rule, text []byte) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []rule }
	}
	text = chartFile(t, "rules.yaml")
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all, text
}

// metric matches a metric of the operator in a query or a page.
var metric = regexp.MustCompile(`\b(?:bellerophon|controller_runtime|workqueue|rest_client|leader_election|process)_[a-z0-9_]+`)

// recorded matches a recorded series.
var recorded = regexp.MustCompile(`\bnamespace[a-z_]*:[a-z_]+:[a-z0-9_]+`)

// TestEachAlertFiresInItsCaseAndIsSilentOtherwise lets promtool play the series of testdata/rules-test.yaml. Its last case
// has a series for each metric of an alert, and no alert fires.
func TestEachAlertFiresInItsCaseAndIsSilentOtherwise(t *testing.T) {
	folder := t.TempDir()
	played, err := os.ReadFile(filepath.Join("testdata", "rules-test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all, text := rules(t)
	for name, content := range map[string][]byte{"rules.yaml": text, "rules-test.yaml": played} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var cases struct {
		Tests []struct {
			Input []struct{ Series string } `json:"input_series"`
		}
	}
	if err := yaml.Unmarshal(played, &cases); err != nil {
		t.Fatal(err)
	}
	records := map[string]string{}
	fine := fmt.Sprint(cases.Tests[len(cases.Tests)-1].Input)
	for _, rule := range all {
		if rule.Record != "" {
			records[rule.Record] = recorded.ReplaceAllStringFunc(rule.Expr, func(name string) string { return records[name] })
			continue
		}
		if !strings.Contains(string(played), fmt.Sprintf("labels: 'ALERTS{alertname=%q", rule.Alert)) {
			t.Errorf("no case plays %s", rule.Alert)
		}
		expr := recorded.ReplaceAllStringFunc(rule.Expr, func(name string) string { return records[name] })
		for _, name := range metric.FindAllString(expr, -1) {
			if !strings.Contains(fine, name+"{") {
				t.Errorf("the last case has no series %s of %s", name, rule.Alert)
			}
		}
	}
	promtool.Run(t, folder, "check", "rules", "rules.yaml")
	promtool.Run(t, folder, "test", "rules", "rules-test.yaml")
}

// documented returns the text of the pages that list metrics.
func documented(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, page := range []string{"metrics.md", "heroes.md"} {
		content, err := os.ReadFile(filepath.Join(docs, page))
		if err != nil {
			t.Fatal(err)
		}
		text.Write(content)
	}
	return text.String()
}

// docs is the folder of the pages.
var docs = filepath.Join("..", "..", "docs")

// undocumented returns the metrics in a text that no page lists, and the recorded series that no rule records.
func undocumented(text, pages, rules string) (missing []string) {
	for _, name := range recorded.FindAllString(text, -1) {
		if !strings.Contains(rules, "record: "+name+"\n") {
			missing = append(missing, name)
		}
	}
	for _, name := range metric.FindAllString(recorded.ReplaceAllString(text, ""), -1) {
		if !strings.Contains(pages, "`"+strings.TrimSuffix(name, "_bucket")+"`") && !strings.HasPrefix(name, "process_") {
			missing = append(missing, name)
		}
	}
	return missing
}

func TestTheDashboardAndTheRulesAskForMetricsThatThereAre(t *testing.T) {
	all, text := rules(t)
	pages := documented(t)
	for _, rule := range all {
		if missing := undocumented(rule.Expr, pages, string(text)); missing != nil || !metric.MatchString(rule.Expr) {
			t.Errorf("the rule %s%s asks for %q, which neither docs/metrics.md nor docs/heroes.md has", rule.Record, rule.Alert, missing)
		}
	}
	var panels strings.Builder
	panels.WriteString("groups:\n- name: panels\n  rules:\n")
	for i, target := range dashboardTargets(t) {
		if missing := undocumented(target, pages, string(text)); missing != nil || !metric.MatchString(target) {
			t.Errorf("the query %s asks for %q, which neither docs/metrics.md nor docs/heroes.md has", target, missing)
		}
		fmt.Fprintf(&panels, "  - record: panel%d\n    expr: %q\n", i, strings.ReplaceAll(target, "$namespace", "home"))
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "panels.yaml"), []byte(panels.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool.Run(t, folder, "check", "rules", "panels.yaml")
}

func dashboardTargets(t *testing.T) (queries []string) {
	t.Helper()
	var shown struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(chartFile(t, "dashboard.json"), &shown); err != nil {
		t.Fatal(err)
	}
	for _, panel := range shown.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, target.Expr)
		}
	}
	return queries
}

const runbooks = "https://github.com/bellerophon-io/bellerophon/blob/main/docs/runbooks/"

// sections are the headings of a runbook page.
var sections = []string{"Impact", "Cause", "Mend", "False alarm"}

func TestEachAlertHasARunbookPageAndEachPageAnAlert(t *testing.T) {
	all, text := rules(t)
	index, err := os.ReadFile(filepath.Join(docs, "runbooks", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages := documented(t)
	alerts := map[string]bool{"README.md": true}
	for _, rule := range all {
		if rule.Alert == "" {
			continue
		}
		file := rule.Alert + ".md"
		alerts[file] = true
		if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" || rule.Annotations["runbook_url"] != runbooks+file {
			t.Errorf("%s needs a severity, a summary, a description and the runbook_url %s: %v %v", rule.Alert, runbooks+file, rule.Labels, rule.Annotations)
		}
		if want := fmt.Sprintf("| [%s](%s) | %s |\n", rule.Alert, file, rule.Labels["severity"]); !strings.Contains(string(index), want) {
			t.Errorf("docs/runbooks/README.md does not have %q", want)
		}
		page, err := os.ReadFile(filepath.Join(docs, "runbooks", file))
		if err != nil {
			t.Errorf("%s has no page: %v", rule.Alert, err)
			continue
		}
		var found []string
		for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllSubmatch(page, -1) {
			found = append(found, string(heading[1]))
		}
		if !strings.HasPrefix(string(page), "# "+rule.Alert+"\n") || !slices.Equal(found, sections) {
			t.Errorf("%s has the sections %q, want %q", file, found, sections)
		}
		if missing := undocumented(string(page), pages, string(text)); missing != nil {
			t.Errorf("%s names %q, which neither docs/metrics.md nor docs/heroes.md has", file, missing)
		}
	}
	entries, err := os.ReadDir(filepath.Join(docs, "runbooks"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !alerts[entry.Name()] {
			t.Errorf("docs/runbooks/%s belongs to no alert", entry.Name())
		}
	}
}

func TestAMetricThatNoPageListsIsFound(t *testing.T) {
	const pages, rules = "| `workqueue_depth` |", "record: namespace:workqueue_depth:sum\n"
	got := undocumented("`workqueue_depth` workqueue_adds namespace:workqueue_depth:sum namespace:workqueue_depth:max", pages, rules)
	if want := []string{"namespace:workqueue_depth:max", "workqueue_adds"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
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
