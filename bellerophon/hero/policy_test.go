package hero

import (
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/bellerophon/render"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// rendered decodes the one object of a kind from the chart of the software.
func rendered[T any](t *testing.T, kind string, values map[string]any) *T {
	t.Helper()
	manifests, err := render.Server("store", "home", values)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range manifests.Objects {
		if object.GetKind() != kind {
			continue
		}
		into := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
			t.Fatal(err)
		}
		return into
	}
	t.Fatalf("the chart has no %s", kind)
	return nil
}

func matches(t *testing.T, selector *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Matches(labels.Set(of))
}

// admits evaluates a policy as a network plugin does: it reports whether a pod of a namespace may connect to the port
// of the members.
func admits(t *testing.T, policy *networkingv1.NetworkPolicy, namespace string, pod map[string]string) bool {
	t.Helper()
	for _, rule := range policy.Spec.Ingress {
		if len(rule.Ports) != 1 || rule.Ports[0].Port.IntValue() != port {
			t.Fatalf("the rule is for the ports %+v", rule.Ports)
		}
		for _, peer := range rule.From {
			inNamespace := namespace == policy.Namespace
			if peer.NamespaceSelector != nil {
				inNamespace = matches(t, peer.NamespaceSelector, map[string]string{corev1.LabelMetadataName: namespace})
			}
			if inNamespace && (peer.PodSelector == nil || matches(t, peer.PodSelector, pod)) {
				return true
			}
		}
	}
	return false
}

// heroOfTheChart returns the hero that the release store has, with backups and a restore.
func heroOfTheChart() *v1.Bellerophon {
	return &v1.Bellerophon{ObjectMeta: metav1.ObjectMeta{Name: "store", Namespace: "home"}, Spec: v1.BellerophonSpec{
		Image: "bellerophon-io/bellerophon-server:v1", Storage: v1.Storage{Size: resource.MustParse("1Gi")},
		Backup: &v1.Backup{VolumeClaimName: "backups"}, Restore: &v1.Restore{VolumeClaimName: "backups"},
	}}
}

func TestPodsOfJobsReachMembersThroughTheNetworkPolicy(t *testing.T) {
	values := map[string]any{"networkPolicy": map[string]any{"enabled": true}, "backup": map[string]any{"volumeClaimName": "backups"}}
	byTheChart := rendered[batchv1.CronJob](t, "CronJob", values).Spec.JobTemplate.Spec.Template
	policy := rendered[networkingv1.NetworkPolicy](t, "NetworkPolicy", values)
	values["hero"] = true
	policyOfTheHero := rendered[networkingv1.NetworkPolicy](t, "NetworkPolicy", values)
	hero := heroOfTheChart()
	for name, job := range map[string]struct {
		policy *networkingv1.NetworkPolicy
		pod    corev1.PodTemplateSpec
	}{
		"the chart's CronJob":     {policy, byTheChart},
		"the hero's CronJob":      {policyOfTheHero, backupsOf(hero).Spec.JobTemplate.Spec.Template},
		"the hero's restore":      {policyOfTheHero, restoreOf(hero).Spec.Template},
		"the hero's last backup":  {policyOfTheHero, lastBackupOf(hero).Spec.Template},
		"the hero under no chart": {policy, backupsOf(hero).Spec.JobTemplate.Spec.Template},
	} {
		if !admits(t, job.policy, "home", job.pod.Labels) {
			t.Errorf("%s: the policy admits no pod with the labels %v", name, job.pod.Labels)
		}
		if admits(t, job.policy, "elsewhere", job.pod.Labels) {
			t.Errorf("%s: the policy admits its labels from another namespace", name)
		}
		// Otherwise a Service would send requests to it, and the StatefulSet would count it as a member.
		if labels.SelectorFromSet(selectorOf(hero)).Matches(labels.Set(job.pod.Labels)) {
			t.Errorf("%s: the labels %v select it as a member", name, job.pod.Labels)
		}
		if matches(t, &job.policy.Spec.PodSelector, job.pod.Labels) || !matches(t, &job.policy.Spec.PodSelector, templateOf(hero).Labels) {
			t.Errorf("%s: the policy is for the pods %v", name, job.policy.Spec.PodSelector)
		}
		if admits(t, job.policy, "home", map[string]string{owned.LabelApp: "shop"}) {
			t.Errorf("%s: the policy admits a stranger", name)
		}
	}
	operator := map[string]string{owned.LabelApp: "bellerophon-operator"}
	if !admits(t, policyOfTheHero, "system", operator) || admits(t, policy, "system", operator) {
		t.Error("the operator must reach the members of a hero, and no others")
	}
}

func TestPrometheusReachesMembersThroughTheNetworkPolicy(t *testing.T) {
	prometheus, agent := map[string]string{owned.LabelApp: "prometheus"}, map[string]string{owned.LabelApp: "agent"}
	chosen := []any{map[string]any{
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{corev1.LabelMetadataName: "metrics"}},
		"podSelector":       map[string]any{"matchLabels": map[string]any{owned.LabelApp: "agent"}},
	}}
	for name, test := range map[string]struct {
		monitored         bool
		from              []any
		prometheus, agent bool
	}{
		"nobody scrapes":                 {},
		"the Prometheus operator":        {monitored: true, prometheus: true},
		"another scraper":                {from: chosen, agent: true},
		"the Prometheus operator's pods": {monitored: true, from: chosen, agent: true},
	} {
		policy := rendered[networkingv1.NetworkPolicy](t, "NetworkPolicy", map[string]any{
			"networkPolicy":  map[string]any{"enabled": true, "metricsFrom": test.from},
			"serviceMonitor": map[string]any{"enabled": test.monitored},
		})
		if got := admits(t, policy, "monitoring", prometheus); got != test.prometheus {
			t.Errorf("%s: the policy admits Prometheus: %v", name, got)
		}
		if got := admits(t, policy, "metrics", agent); got != test.agent {
			t.Errorf("%s: the policy admits the chosen pods: %v", name, got)
		}
		if admits(t, policy, "monitoring", agent) {
			t.Errorf("%s: the policy admits pods of another namespace than the chosen one", name)
		}
	}
}
