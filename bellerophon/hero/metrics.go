package hero

import (
	"context"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// heroMetrics collects the state of all heroes at each scrape. It reads the cache alone, so that a standby has the same series.
type heroMetrics struct{ client *controller.Client }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bellerophon_hero_"+name, help, append([]string{"hero_namespace", "hero"}, labels...), nil)
}

var (
	desiredMembers  = desc("desired_members", "Members that the spec asks for.")
	readyMembers    = desc("ready_members", "Members that are ready.")
	conditionTrue   = desc("condition", "1 if a condition is True, 0 otherwise: Available, Degraded, Progressing or Ready.", "condition")
	lagOfMember     = desc("member_lag_entries", "Entries that a member has yet to apply; 0 if they are fewer than 100.", "member")
	backupScheduled = desc("backup_scheduled_timestamp_seconds", "When a backup began last by its schedule, in seconds since 1970.")
	backupSucceeded = desc("backup_timestamp_seconds", "When the last backup was completed, in seconds since 1970; 0 if there is none.")
)

var countedConditions = []string{v1.ConditionAvailable, v1.ConditionDegraded, v1.ConditionProgressing, v1.ConditionReady}

// Describe implements prometheus.Collector.
func (m heroMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{desiredMembers, readyMembers, conditionTrue, lagOfMember, backupScheduled, backupSucceeded} {
		out <- description
	}
}

// Collect implements prometheus.Collector. While the kind is not served, there are no series.
func (m heroMetrics) Collect(out chan<- prometheus.Metric) {
	heroes, err := controller.List[*v1.Bellerophon](context.Background(), m.client)
	if err != nil {
		return
	}
	for _, hero := range heroes {
		gauge := func(of *prometheus.Desc, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, append([]string{hero.Namespace, hero.Name}, labels...)...)
		}
		gauge(desiredMembers, float64(replicasOf(hero)))
		gauge(readyMembers, float64(hero.Status.ReadyReplicas))
		for _, kind := range countedConditions {
			value := 0.0
			if meta.IsStatusConditionTrue(hero.Status.Conditions, kind) {
				value = 1
			}
			gauge(conditionTrue, value, kind)
		}
		for _, member := range hero.Status.Members {
			gauge(lagOfMember, float64(member.Lag), member.Name)
		}
		if hero.Spec.Backup == nil {
			continue
		}
		gauge(backupSucceeded, seconds(hero.Status.LastBackup))
		cron, err := controller.Get[*batchv1.CronJob](context.Background(), m.client, types.NamespacedName{Namespace: hero.Namespace, Name: backupName(hero)})
		if err == nil && cron.Status.LastScheduleTime != nil {
			gauge(backupScheduled, seconds(cron.Status.LastScheduleTime))
		}
	}
}

// seconds returns a time in seconds since 1970, or 0.
func seconds(at *metav1.Time) float64 {
	if at == nil {
		return 0
	}
	return float64(at.Unix())
}
