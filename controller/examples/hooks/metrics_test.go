package main

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// exported returns the metrics of hooks as "name=value".
func exported(t *testing.T, metrics *hookMetrics) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		for _, metric := range family.Metric {
			all = append(all, strings.Join(strings.Fields(family.GetName()+" "+metric.String()), " "))
		}
	}
	return strings.Join(all, "\n")
}

func TestMetricsOfHooksAreExportedAndGroupsAreReplaced(t *testing.T) {
	metrics, hook := newHookMetrics(), &Hook{Name: "h"}
	for _, lines := range []string{
		`{"name":"size","action":"set","value":2,"labels":{"of":"x"},"group":"g"}
{"name":"size","action":"set","value":3,"labels":{"of":"y"},"group":"g"}
{"name":"runs","add":1}{"name":"runs","action":"add","value":2}`,
		`{"name":"size","action":"set","value":4,"labels":{"of":"y"},"group":"g"}
{"name":"took","action":"observe","value":0.3,"buckets":[0.1,0.5]}`,
	} {
		if err := metrics.apply(hook, []byte(lines)); err != nil {
			t.Fatal(err)
		}
	}
	text := exported(t, metrics)
	for _, want := range []string{"runs ", "counter:{value:3}", "gauge:{value:4}", "histogram:{sample_count:1 sample_sum:0.3", "cumulative_count:1 upper_bound:0.5"} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, `"x"`) {
		t.Errorf("a value of the group that the last run left out remains:\n%s", text)
	}
	if err := metrics.apply(hook, []byte(`{"action":"expire","group":"g"}`)); err != nil || strings.Contains(exported(t, metrics), "size") {
		t.Errorf("the group remains: %v\n%s", err, exported(t, metrics))
	}
}

func TestAMistakeInAMetricChangesNothing(t *testing.T) {
	metrics, hook := newHookMetrics(), &Hook{Name: "h"}
	for line, want := range map[string]string{
		`{"name":"a b","action":"set","value":1}`:                       `name is "a b"`,
		`{"name":"a","action":"grow","value":1}`:                        `action is "grow"`,
		`{"name":"a","action":"set"}`:                                   "the value of a is missing",
		`{"name":"a","action":"add","value":-1}`:                        "a counter only grows",
		`{"name":"a","action":"set","value":1,"labels":{"hook":"x"}}`:   `the label "hook"`,
		`{"name":"a","action":"set","value":1,"unit":"s"}`:              `unknown field "unit"`,
		`{"name":"go_info","action":"set","value":1}`:                   `metrics of its own`,
		`{"name":"a","action":"set","value":1,"labels":{"__x":"y"}}`:    `"__x"`,
		`{"action":"expire"}`:                                           "group is missing",
		`{"name":"a","action":"observe","value":1,"buckets":[0.5,0.1]}`: "not in order",
		`{"name":`: "METRICS_PATH",
	} {
		err := metrics.apply(hook, []byte(`{"name":"good","action":"set","value":1}`+line))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one with %q", line, err, want)
		}
	}
	if text := exported(t, metrics); text != "" {
		t.Errorf("there are metrics: %s", text)
	}
}
