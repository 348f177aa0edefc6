package render_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/golden"
)

// panel is a graph of the dashboard. The description is shown to people who point at it.
type panel struct {
	title, description string
	unit               string // of Grafana
	queries            []query
	buckets            bool // show the buckets of a histogram, with the exemplars
}

// query is a query of PromQL and the legend of its series, such as {{pod}}.
type query struct{ expr, legend string }

// of begins the selector of each series, so that a dashboard shows one installation.
const of = `{namespace="$namespace"`

// one returns the queries of a panel with a single one.
func one(expr, legend string) []query { return []query{{expr, legend}} }

// dashboard is the source of charts/bellerophon-operator/files/dashboard.json: rows of panels.
var dashboard = []struct {
	row    string
	panels []panel
}{
	{"Health", []panel{
		{"Level of sync", "0 starting, 1 listed, 2 current, 3 own writes visible, 4 settled, 5 converged", "none",
			one(`bellerophon_sync_level`+of+`}`, "{{pod}}"), false},
		{"Leaders", "1 for the replica that leads", "none",
			one(`leader_election_master_status`+of+`}`, "{{pod}}"), false},
		{"Keys that are not finished", "failing: three failures in a row or more; terminal: given up until the object changes", "short",
			one(`namespace_controller_state:bellerophon_unfinished_keys:sum`+of+`}`, "{{controller}} {{state}}"), false},
		{"Fights and hot loops", "Objects whose attempts do not end by themselves", "short",
			one(`namespace_controller_pattern:bellerophon_patterns:sum`+of+`}`, "{{controller}} {{pattern}}"), false},
	}},
	{"Reconciles", []panel{
		{"Reconciles a second", "By result", "reqps",
			one(`sum by (controller, result) (rate(controller_runtime_reconcile_total`+of+`}[5m]))`, "{{controller}} {{result}}"), false},
		{"Ratio of reconciles that fail", "", "percentunit",
			one(`namespace_controller:controller_runtime_reconcile_errors_per_reconcile:ratio_rate5m`+of+`}`, "{{controller}}"), false},
		{"Duration of a reconcile, p99", "", "s",
			one(`namespace_controller:controller_runtime_reconcile_time_seconds:p99_rate5m`+of+`}`, "{{controller}}"), false},
		{"Durations of reconciles", "An exemplar has the reconcile_id of an attempt, which /debug/why?attempt=ID explains", "s",
			one(`sum by (le) (increase(controller_runtime_reconcile_time_seconds_bucket`+of+`}[5m]))`, "{{le}}"), true},
		{"Wait for a worker, p99", "", "s",
			one(`namespace_controller:workqueue_queue_duration_seconds:p99_rate5m`+of+`}`, "{{controller}}"), false},
		{"Waits for a worker", "An exemplar has the reconcile_id of an attempt, which /debug/why?attempt=ID explains", "s",
			one(`sum by (le) (increase(workqueue_queue_duration_seconds_bucket`+of+`}[5m]))`, "{{le}}"), true},
		{"Objects that wait", "Queued, or backing off", "short",
			one(`sum by (controller) (workqueue_depth`+of+`})`, "{{controller}}"), false},
		{"Workers that are occupied", "", "short",
			one(`sum by (controller) (controller_runtime_active_workers`+of+`})`, "{{controller}}"), false},
	}},
	{"API server", []panel{
		{"Requests to the API server a second", "", "reqps",
			one(`sum by (method, code) (rate(rest_client_requests_total`+of+`}[5m]))`, "{{method}} {{code}}"), false},
		{"Writes a second", "Writes that succeeded", "wps",
			one(`sum by (kind, verb) (rate(bellerophon_writes_total`+of+`}[5m]))`, "{{verb}} {{kind}}"), false},
		{"Echo of own writes, p99", "Time from the answer to a write to its event in the cache", "s",
			one(`namespace_kind:bellerophon_own_write_echo_seconds:p99_rate5m`+of+`}`, "{{kind}}"), false},
		{"Lists in ten minutes", "A watch that works goes on without lists", "short",
			one(`namespace_pod_kind:bellerophon_source_lists:increase10m`+of+`}`, "{{pod}} {{kind}}"), false},
	}},
	{"Cache and sources", []panel{
		{"Objects in the cache", "", "short",
			one(`max by (kind) (bellerophon_cache_objects`+of+`})`, "{{kind}}"), false},
		{"State of the watches", "1 for the state of the watch of each replica", "none",
			one(`sum by (kind, state) (bellerophon_source_state`+of+`})`, "{{kind}} {{state}}"), false},
		{"Silence of the watches", "Time since the last event or bookmark", "s",
			one(`max by (kind) (bellerophon_source_silence_seconds`+of+`})`, "{{kind}}"), false},
		{"Anomalies in ten minutes", "Events that should not happen", "short",
			one(`namespace_kind_anomaly:bellerophon_cache_anomalies:increase10m`+of+`}`, "{{kind}} {{anomaly}}"), false},
		{"Memory", "Resident memory of the operator", "bytes",
			one(`process_resident_memory_bytes`+of+`, pod=~".+"} and on (namespace, pod) bellerophon_sync_level`, "{{pod}}"), false},
		{"Processors", "CPU time of the operator a second", "short",
			one(`rate(process_cpu_seconds_total`+of+`, pod=~".+"}[5m]) and on (namespace, pod) bellerophon_sync_level`, "{{pod}}"), false},
	}},
	{"Heroes", []panel{
		{"Members of heroes that are missing", "Desired members that are not ready.", "short",
			one(`max by (hero_namespace, hero) (bellerophon_hero_desired_members`+of+`}) - max by (hero_namespace, hero) (bellerophon_hero_ready_members`+of+`})`, "{{hero_namespace}}/{{hero}}"), false},
		{"Conditions of heroes that need attention", "1 while a hero is degraded or has no leader.", "short", []query{
			{`max by (hero_namespace, hero) (bellerophon_hero_condition` + of + `, condition="Degraded"})`, "{{hero_namespace}}/{{hero}} Degraded"},
			{`1 - max by (hero_namespace, hero) (bellerophon_hero_condition` + of + `, condition="Available"})`, "{{hero_namespace}}/{{hero}} without a leader"},
		}, false},
		{"Lag of members", "Entries that a member has yet to apply.", "short",
			one(`max by (hero_namespace, member) (bellerophon_hero_member_lag_entries`+of+`})`, "{{hero_namespace}}/{{member}}"), false},
		{"Age of the last backup", "Only of heroes with backups that have one.", "s",
			one(`time() - (max by (hero_namespace, hero) (bellerophon_hero_backup_timestamp_seconds`+of+`}) > 0)`, "{{hero_namespace}}/{{hero}}"), false},
	}},
}

// These types have the fields of Grafana's JSON that the dashboard uses.
type (
	grafanaDashboard struct {
		Title         string            `json:"title"`
		UID           string            `json:"uid"`
		SchemaVersion int               `json:"schemaVersion"`
		Version       int               `json:"version"`
		Editable      bool              `json:"editable"`
		Tags          []string          `json:"tags"`
		Time          map[string]string `json:"time"`
		Refresh       string            `json:"refresh"`
		Templating    struct {
			List []grafanaVariable `json:"list"`
		} `json:"templating"`
		Panels []grafanaPanel `json:"panels"`
	}
	grafanaVariable struct {
		Name       string             `json:"name"`
		Type       string             `json:"type"`
		Label      string             `json:"label"`
		Query      any                `json:"query"`
		Datasource *grafanaDatasource `json:"datasource,omitempty"`
		Refresh    int                `json:"refresh,omitempty"`
	}
	grafanaDatasource struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	grafanaPanel struct {
		ID          int                `json:"id"`
		Title       string             `json:"title"`
		Description string             `json:"description,omitempty"`
		Type        string             `json:"type"`
		Datasource  *grafanaDatasource `json:"datasource,omitempty"`
		GridPos     grafanaPosition    `json:"gridPos"`
		FieldConfig *grafanaFields     `json:"fieldConfig,omitempty"`
		Targets     []grafanaTarget    `json:"targets,omitempty"`
	}
	grafanaPosition struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}
	grafanaFields struct {
		Defaults struct {
			Unit string `json:"unit"`
			Min  int    `json:"min"`
		} `json:"defaults"`
		Overrides []any `json:"overrides"`
	}
	grafanaTarget struct {
		RefID        string `json:"refId"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
		Format       string `json:"format,omitempty"`
		Exemplar     bool   `json:"exemplar,omitempty"`
	}
)

var datasource = &grafanaDatasource{"prometheus", "${datasource}"}

const panelHeight, panelWidth, columns = 8, 12, 2

// dashboardJSON returns the dashboard for Grafana.
func dashboardJSON(t *testing.T) string {
	t.Helper()
	shown := grafanaDashboard{
		Title: "Bellerophon operator", UID: "bellerophon-operator", SchemaVersion: 39, Version: 2, Editable: true, Tags: []string{"bellerophon"},
		Time: map[string]string{"from": "now-1h", "to": "now"}, Refresh: "30s",
	}
	shown.Templating.List = []grafanaVariable{
		{Name: "datasource", Type: "datasource", Label: "Data source", Query: "prometheus"},
		{Name: "namespace", Type: "query", Label: "Namespace", Datasource: datasource, Refresh: 2,
			Query: map[string]string{"query": "label_values(bellerophon_sync_level, namespace)", "refId": "namespaces"}},
	}
	y := 0
	add := func(made grafanaPanel) {
		made.ID = len(shown.Panels) + 1
		shown.Panels = append(shown.Panels, made)
	}
	for _, row := range dashboard {
		add(grafanaPanel{Title: row.row, Type: "row", GridPos: grafanaPosition{1, panelWidth * columns, 0, y}})
		y++
		for i, panel := range row.panels {
			add(panel.grafana(grafanaPosition{panelHeight, panelWidth, i % columns * panelWidth, y + i/columns*panelHeight}))
		}
		y += (len(row.panels) + columns - 1) / columns * panelHeight
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(shown); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// grafana returns the panel at a position.
func (p panel) grafana(at grafanaPosition) grafanaPanel {
	made := grafanaPanel{Title: p.title, Description: p.description, Type: "timeseries", Datasource: datasource, GridPos: at, FieldConfig: &grafanaFields{Overrides: []any{}}}
	made.FieldConfig.Defaults.Unit = p.unit
	for i, query := range p.queries {
		target := grafanaTarget{RefID: string(rune('A' + i)), Expr: query.expr, LegendFormat: query.legend}
		if p.buckets {
			made.Type, target.Format, target.Exemplar = "heatmap", "heatmap", true
		}
		made.Targets = append(made.Targets, target)
	}
	return made
}

// TestTheDashboardOfTheChartIsTheOneOfItsSource compares the file with its source. With -update it writes the file.
func TestTheDashboardOfTheChartIsTheOneOfItsSource(t *testing.T) {
	golden.Compare(t, filepath.Join("..", "..", "charts", "bellerophon-operator", "files", "dashboard.json"), dashboardJSON(t))
}
