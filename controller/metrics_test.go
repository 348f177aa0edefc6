package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
)

// inherited lists the prefixes of metrics that controller-runtime or a library named.
var inherited = []string{"controller_runtime_", "workqueue_", "rest_client_", "go_", "process_", "promhttp_"}

func TestEachOutcomeIsInTheMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		attempt := 0
		reconcile := func(ctx context.Context, _ *controller.Client) (time.Duration, error) {
			attempt++
			switch attempt {
			case 1:
				return 0, errors.New("no")
			case 2:
				panic("boom")
			case 3:
				<-ctx.Done()
				return 0, ctx.Err()
			case 4:
				return time.Second, nil
			}
			return 0, operators.Terminal(errors.New("never"))
		}
		run(t, controller.Options{Registry: registry, Timeout: 30 * time.Second, Workers: 3}, 5, reconcile, func() {
			for series, want := range map[string]float64{
				`controller_runtime_reconcile_total{controller=pods,result=error}`:         3,
				`controller_runtime_reconcile_total{controller=pods,result=success}`:       0,
				`controller_runtime_reconcile_total{controller=pods,result=requeue_after}`: 1,
				`controller_runtime_reconcile_total{controller=pods,result=terminal}`:      1,
				`controller_runtime_reconcile_errors_total{controller=pods}`:               4,
				`controller_runtime_terminal_reconcile_errors_total{controller=pods}`:      1,
				`controller_runtime_reconcile_panics_total{controller=pods}`:               1,
				`controller_runtime_reconcile_timeouts_total{controller=pods}`:             1,
				`controller_runtime_reconcile_time_seconds{controller=pods}`:               5,
				`controller_runtime_active_workers{controller=pods}`:                       0,
				`controller_runtime_max_concurrent_reconciles{controller=pods}`:            3,
				`workqueue_adds_total{controller=pods,name=pods}`:                          5,
				`workqueue_retries_total{controller=pods,name=pods}`:                       3,
				`workqueue_queue_duration_seconds{controller=pods,name=pods}`:              5,
				`workqueue_work_duration_seconds{controller=pods,name=pods}`:               5,
				`workqueue_depth{controller=pods,name=pods,priority=0}`:                    0,
				`workqueue_unfinished_work_seconds{controller=pods,name=pods}`:             0,
				`workqueue_longest_running_processor_seconds{controller=pods,name=pods}`:   0,
				`bellerophon_cache_objects{kind=Pod}`:                                      1,
				`bellerophon_cache_anomalies_total{anomaly=older,kind=Pod}`:                0,
				`bellerophon_source_state{kind=Pod,state=watching}`:                        1,
				`bellerophon_source_state{kind=Pod,state=listing}`:                         0,
				`bellerophon_source_requests_total{kind=Pod,request=list}`:                 1,
				`bellerophon_source_requests_total{kind=Pod,request=watch}`:                1,
				`bellerophon_source_requests_total{kind=Pod,request=failed}`:               0,
				`bellerophon_stage_items_total{direction=in,stage=debounce}`:               3,
				`bellerophon_stage_items_total{direction=out,stage=debounce}`:              3,
				`bellerophon_stage_items_total{direction=in,stage=cache}`:                  3,
				`bellerophon_stage_items_total{direction=out,stage=cache}`:                 1,
				`bellerophon_stage_items_total{direction=out,stage=trigger}`:               1,
				`bellerophon_stage_items_total{direction=out,stage=reconcile}`:             5,
				`bellerophon_stage_waiting{stage=debounce}`:                                0,
				`bellerophon_sync_level{}`:                                                 4,
			} {
				if got, found := value(t, registry, series); !found || got != want {
					t.Errorf("%s is %v, found %v; want %v", series, got, found, want)
				}
			}
		})
	})
}

// patchesStatus is a reconciler that makes one write.
func patchesStatus(ctx context.Context, c *controller.Client) (time.Duration, error) {
	after := pod("x", "4")
	after.Status.Phase = corev1.PodRunning
	_, err := controller.PatchStatus(ctx, c, after, controller.MergeFrom(pod("x", "4")))
	return 0, err
}

func TestTheMetricsAreWellFormedAndHaveTheirNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		run(t, controller.Options{Registry: registry}, 1, patchesStatus, func() {
			if got, found := value(t, registry, "bellerophon_writes_total{controller=pods,kind=Pod,verb=patch}"); !found || got != 1 {
				t.Errorf("%v writes are counted, want 1", got)
			}
			problems, err := testutil.GatherAndLint(registry)
			if err != nil {
				t.Fatal(err)
			}
			for _, problem := range problems {
				if !slices.ContainsFunc(inherited, func(prefix string) bool { return strings.HasPrefix(problem.Metric, prefix) }) {
					t.Errorf("%s: %s", problem.Metric, problem.Text)
				}
			}
			if _, found := value(t, registry, "bellerophon_own_write_echo_seconds{kind=Pod}"); !found {
				t.Error("the echo of the own write is not measured")
			}
			same(t, names(t, registry), []string{
				"bellerophon_cache_anomalies_total", "bellerophon_cache_bytes", "bellerophon_cache_objects", "bellerophon_controller_waits", "bellerophon_kind_counted", "bellerophon_log_records_dropped_total", "bellerophon_loop_duration_seconds",
				"bellerophon_own_write_echo_seconds", "bellerophon_source_quiet_seconds", "bellerophon_source_requests_total",
				"bellerophon_source_silence_seconds", "bellerophon_source_state", "bellerophon_stage_items_total", "bellerophon_stage_waiting",
				"bellerophon_sync_level", "bellerophon_unfinished_keys", "bellerophon_writes_total",
				"controller_runtime_active_workers", "controller_runtime_max_concurrent_reconciles",
				"controller_runtime_reconcile_errors_total", "controller_runtime_reconcile_panics_total",
				"controller_runtime_reconcile_time_seconds", "controller_runtime_reconcile_timeouts_total",
				"controller_runtime_reconcile_total", "controller_runtime_terminal_reconcile_errors_total",
				"promhttp_metric_handler_errors_total",
				"rest_client_request_duration_seconds", "rest_client_requests_total",
				"workqueue_adds_total", "workqueue_depth", "workqueue_longest_running_processor_seconds",
				"workqueue_queue_duration_seconds", "workqueue_retries_total", "workqueue_unfinished_work_seconds",
				"workqueue_work_duration_seconds",
			})
		})
	})
}

// names returns the names of all metrics, except for the metrics of the Go runtime and the process.
func names(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, family := range families {
		if name := family.GetName(); !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			found = append(found, name)
		}
	}
	return found
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// value returns the value of a series such as name{label=value}. For a histogram it is the count.
func value(t *testing.T, registry *prometheus.Registry, series string) (float64, bool) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			if fmt.Sprintf("%s{%s}", family.GetName(), strings.Join(labels, ",")) != series {
				continue
			}
			switch {
			case metric.Counter != nil:
				return metric.Counter.GetValue(), true
			case metric.Gauge != nil:
				return metric.Gauge.GetValue(), true
			case metric.Histogram != nil:
				return float64(metric.Histogram.GetSampleCount()), true
			}
		}
	}
	return 0, false
}
