package controller_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bellerophon-io/bellerophon/controller"
	tapes "github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/internal/golden"
	"github.com/prometheus/client_golang/prometheus"
)

// fromPage matches a row of docs/metrics.md: name, type and labels.
var fromPage = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\w+) \\| ([a-z, ]*) ?\\|")

func TestThePageOfMetricsHasEachMetric(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	before, after, _ := strings.Cut(string(page), "\n## Webhooks\n") // A test of package webhook checks this section.
	_, after, _ = strings.Cut(after, "\n## ")
	documented := map[string]string{}
	for _, row := range fromPage.FindAllStringSubmatch(before+after, -1) {
		labels := strings.FieldsFunc(row[3], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(labels)
		documented[row[1]] = fmt.Sprint(row[2], " ", labels)
	}
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		run(t, controller.Options{Registry: registry}, 1, patchesStatus, func() {
			served := servedMetrics(t, registry)
			elected := prometheus.NewRegistry()
			add(t, manager(t, silent, controller.Options{Registry: elected, MetricsAddress: "127.0.0.1:0", Recording: &tapes.Options{Dir: t.TempDir()}, LeaderElection: controller.LeaderElection{Lease: "system/operator"}}), nothing)
			maps.Copy(served, servedMetrics(t, elected))
			maps.Copy(served, shardMetrics(t))
			protected := prometheus.NewRegistry()
			add(t, manager(t, silent, controller.Options{Registry: protected, MetricsAddress: "127.0.0.1:0", Protection: controller.Protected}), nothing)
			maps.Copy(served, servedMetrics(t, protected))
			for _, name := range slices.Sorted(maps.Keys(served)) {
				if documented[name] != served[name] {
					t.Errorf("docs/metrics.md has %q for %s, want %q", documented[name], name, served[name])
				}
			}
			var names []string
			for name, details := range served {
				names = append(names, name+"\t"+details)
			}
			golden.Names(t, "../docs/names/metrics-manager.txt", names)
			for _, name := range slices.Sorted(maps.Keys(documented)) {
				if served[name] == "" {
					t.Errorf("docs/metrics.md has %s, which no manager serves", name)
				}
			}
		})
	})
}

// shardMetrics returns the metrics of a manager with Options.Shards, as servedMetrics does.
func shardMetrics(t *testing.T) map[string]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	add(t, manager(t, silent, controller.Options{Registry: registry, Shards: &shards.Options{Group: "g", Namespace: "n"}}), nothing)
	served := servedMetrics(t, registry)
	maps.DeleteFunc(served, func(name, _ string) bool { return !strings.HasPrefix(name, "bellerophon_shard_") })
	return served
}

// servedMetrics returns type and labels of each metric by its name, without the metrics of libraries.
func servedMetrics(t *testing.T, registry *prometheus.Registry) map[string]string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]string{}
	for _, family := range families {
		name := family.GetName()
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "promhttp_") {
			continue
		}
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, label.GetName())
		}
		slices.Sort(labels)
		served[name] = fmt.Sprint(strings.ToLower(family.GetType().String()), " ", labels)
	}
	return served
}
