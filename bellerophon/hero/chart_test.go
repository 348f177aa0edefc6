package hero

import (
	"strings"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/bellerophon/render"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestTheChartRunsMembersAsAHeroDoes compares the pods of both. Only the first start differs: members of the chart
// find each other.
func TestTheChartRunsMembersAsAHeroDoes(t *testing.T) {
	chart := rendered[appsv1.StatefulSet](t, "StatefulSet", map[string]any{"tls": map[string]any{"secretName": "mine"}})
	hero := &v1.Bellerophon{ObjectMeta: metav1.ObjectMeta{Name: "store", Namespace: "home"}, Spec: v1.BellerophonSpec{
		Image: "bellerophon-io/bellerophon-server:v1", TLS: &v1.TLS{SecretName: "mine"}, Storage: v1.Storage{Size: resource.MustParse("1Gi")},
	}}
	monitored, err := render.Server("store", "home", map[string]any{"hero": true, "serviceMonitor": map[string]any{"enabled": true}})
	if err != nil {
		t.Fatal(err)
	}
	own := setOf(hero, 3)
	a, b := chart.Spec.Template.Spec, own.Spec.Template.Spec
	var arguments []string
	for _, argument := range a.Containers[0].Args {
		if !strings.HasPrefix(argument, "--peers=") {
			arguments = append(arguments, argument)
		}
	}
	a.Containers[0].Args, a.Containers[0].Resources = arguments, b.Containers[0].Resources
	a.Containers[0].Env[0].ValueFrom.FieldRef.APIVersion = "v1" // It is the API server's default.
	a.Affinity, b.Affinity = nil, nil                           // The labels of the selectors are compared below.
	if !equality.Semantic.DeepEqual(a, b) {
		t.Errorf("the chart has %+v\nand a hero %+v", a, b)
	}
	for _, object := range monitored.Objects {
		if selected, found, _ := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels"); object.GetKind() == "ServiceMonitor" {
			has := membersServiceOf(hero).Labels
			if !found || !labels.SelectorFromSet(selected).Matches(labels.Set(has)) {
				t.Errorf("the ServiceMonitor selects %v, and the Service of a hero has %v", selected, has)
			}
		}
	}
	if !equality.Semantic.DeepEqual(chart.Spec.Selector, own.Spec.Selector) {
		t.Errorf("the chart selects %v, and a hero %v", chart.Spec.Selector, own.Spec.Selector)
	}
	own.Spec.VolumeClaimTemplates[0].Spec.VolumeMode = nil // It is the API server's default.
	if !equality.Semantic.DeepEqual(chart.Spec.VolumeClaimTemplates[0].Spec, own.Spec.VolumeClaimTemplates[0].Spec) {
		t.Errorf("the chart claims %+v, and a hero %+v", chart.Spec.VolumeClaimTemplates[0].Spec, own.Spec.VolumeClaimTemplates[0].Spec)
	}
}

// TestJobsKeepTheRulesAboutNodesAndNoOthers has members that need a node each: a Job that inherited the rule would be
// pending for ever on a cluster with as many nodes as members.
func TestJobsKeepTheRulesAboutNodesAndNoOthers(t *testing.T) {
	architecture := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}}},
	}}}}
	term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{owned.LabelApp: appName}}}
	alone := &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}
	together := &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}
	toleration := corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists}
	for name, test := range map[string]struct{ given, want *corev1.Affinity }{
		"no rule":         {},
		"pods only":       {&corev1.Affinity{PodAntiAffinity: alone}, nil},
		"nodes only":      {&corev1.Affinity{NodeAffinity: architecture}, &corev1.Affinity{NodeAffinity: architecture}},
		"pods and nodes":  {&corev1.Affinity{NodeAffinity: architecture, PodAffinity: together, PodAntiAffinity: alone}, &corev1.Affinity{NodeAffinity: architecture}},
		"an empty object": {&corev1.Affinity{}, nil},
	} {
		hero := heroOfTheChart()
		hero.Spec.Affinity, hero.Spec.Tolerations = test.given, []corev1.Toleration{toleration}
		values, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1.BellerophonSpec{Affinity: test.given, Tolerations: hero.Spec.Tolerations})
		if err != nil {
			t.Fatal(err)
		}
		given := map[string]any{"tolerations": values["tolerations"], "backup": map[string]any{"volumeClaimName": "backups"}}
		if test.given != nil {
			given["affinity"] = values["affinity"]
		}
		for of, pod := range map[string]corev1.PodTemplateSpec{
			"the chart's CronJob":    rendered[batchv1.CronJob](t, "CronJob", given).Spec.JobTemplate.Spec.Template,
			"the hero's CronJob":     backupsOf(hero).Spec.JobTemplate.Spec.Template,
			"the hero's restore":     restoreOf(hero).Spec.Template,
			"the hero's last backup": lastBackupOf(hero).Spec.Template,
		} {
			if !equality.Semantic.DeepEqual(pod.Spec.Affinity, test.want) {
				t.Errorf("%s: %s has the affinity %v, want %v", name, of, pod.Spec.Affinity, test.want)
			}
			if !equality.Semantic.DeepEqual(pod.Spec.Tolerations, []corev1.Toleration{toleration}) {
				t.Errorf("%s: %s has the tolerations %v", name, of, pod.Spec.Tolerations)
			}
		}
		if test.given != nil && !equality.Semantic.DeepEqual(setOf(hero, 3).Spec.Template.Spec.Affinity, test.given) {
			t.Errorf("%s: the members have another affinity than the hero", name)
		}
	}
}
