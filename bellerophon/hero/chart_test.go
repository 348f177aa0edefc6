package hero

import (
	"strings"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/render"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
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
	a.Affinity, b.Affinity = nil, nil // The labels of the selectors are compared below.
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
	if !equality.Semantic.DeepEqual(chart.Spec.VolumeClaimTemplates[0].Spec, own.Spec.VolumeClaimTemplates[0].Spec) {
		t.Errorf("the chart claims %+v, and a hero %+v", chart.Spec.VolumeClaimTemplates[0].Spec, own.Spec.VolumeClaimTemplates[0].Spec)
	}
}
