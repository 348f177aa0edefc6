package sourcestest_test

import (
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
)

func TestApplyConfigurationsOfATypedClientAreApplied(t *testing.T) {
	server := newServer(t, sourcestest.Options{})
	clients, err := kubernetes.NewForConfig(server.Config())
	must(t, err)
	client := clients.CoreV1().ConfigMaps("a")
	apply := func(manager string, config *applycorev1.ConfigMapApplyConfiguration) (*corev1.ConfigMap, error) {
		return client.Apply(t.Context(), config, metav1.ApplyOptions{FieldManager: manager})
	}
	made, err := apply("me", applycorev1.ConfigMap("x", "a").WithData(map[string]string{"mine": "1", "shared": "1"}))
	must(t, err)
	_, err = apply("you", applycorev1.ConfigMap("x", "a").WithData(map[string]string{"shared": "2"}))
	failsWith(t, "applying what is another manager's", err, metav1.StatusReasonConflict)
	if len(made.ManagedFields) != 1 || !strings.Contains(err.Error(), `conflict with "me": .data.shared`) {
		t.Errorf("the managed fields are %v, and the conflict is %v", made.ManagedFields, err)
	}
	extracted, err := applycorev1.ExtractConfigMap(made, "me")
	must(t, err)
	delete(extracted.Data, "shared")
	pruned, err := apply("me", extracted)
	must(t, err)
	if len(pruned.Data) != 1 || pruned.Data["mine"] != "1" {
		t.Errorf("after the apply without a field, the data is %v", pruned.Data)
	}
}

// Objects to which no client applies have no managed fields, which makes each write cheaper.
func TestByDefaultManagedFieldsBeginWithTheFirstApply(t *testing.T) {
	server := newServer(t, sourcestest.Options{})
	client := api(t, server).Resource(configMaps).Namespace("a")
	made := configMap("x", "1")
	must(t, server.Create(made))
	made.Labels = map[string]string{"a": "b"}
	must(t, server.Update(made))
	if len(made.ManagedFields) > 0 {
		t.Errorf("before the first apply, the managed fields are %v", made.ManagedFields)
	}
	apply := func(data string) error {
		_, err := client.Patch(t.Context(), "x", types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","data":`+data+`}`), metav1.PatchOptions{FieldManager: "me"})
		return err
	}
	err := apply(`{"value":"2"}`)
	failsWith(t, "applying another value", err, metav1.StatusReasonConflict)
	if !strings.Contains(err.Error(), `conflict with "before-first-apply"`) {
		t.Errorf("the conflict is %v", err)
	}
	must(t, apply(`{"more":"1"}`))
	must(t, server.Get(made))
	made.Data["more"] = "2"
	must(t, server.Update(made))
	err = apply(`{"more":"3"}`)
	failsWith(t, "applying what a test wrote", err, metav1.StatusReasonConflict)
	if !strings.Contains(err.Error(), `conflict with "sourcestest"`) {
		t.Errorf("the conflict is %v", err)
	}
}

// planet is a custom resource with a Go type.
type planet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Moons             []string `json:"moons,omitempty" patchStrategy:"merge"`
}

func (p *planet) DeepCopyObject() runtime.Object { copied := *p; return &copied }

type planetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []planet `json:"items"`
}

func (l *planetList) DeepCopyObject() runtime.Object { copied := *l; return &copied }

// A real API server does not know the Go type of a custom resource.
func TestAGoTypeMakesNoKindBuiltIn(t *testing.T) {
	planets := heroes.GroupVersion().WithResource("planets")
	types := runtime.NewScheme()
	types.AddKnownTypes(planets.GroupVersion(), &planet{}, &planetList{})
	server, err := sourcestest.New(sourcestest.Options{Scheme: types})
	must(t, err)
	must(t, server.Create(&planet{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}, Moons: []string{"io"}}))
	client := api(t, server).Resource(planets).Namespace("a")
	_, err = client.Patch(t.Context(), "x", "application/strategic-merge-patch+json", []byte(`{"moons":["europa"]}`), metav1.PatchOptions{})
	failsWith(t, "a strategic merge patch", err, metav1.StatusReasonUnsupportedMediaType)
	applied, err := client.Apply(t.Context(), "x", object("example.org/v1", "planet", "", "x", "moons", []any{"io"}, "metadata.finalizers", []any{"a"}), metav1.ApplyOptions{FieldManager: "me"})
	must(t, err)
	if fields := applied.GetManagedFields(); len(fields) != 2 || applied.GetFinalizers()[0] != "a" {
		t.Errorf("applied %v", applied)
	}
}
