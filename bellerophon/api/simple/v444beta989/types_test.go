package v444beta989_test

import (
	"reflect"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v444beta989"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOneSchemeReadsBothVersionsAndTheirFieldsAreTheSame(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, v444beta989.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	read := func(version string) runtime.Object {
		manifest := `{"apiVersion": "stable.simple-bellerophon.io/` + version + `", "kind": "BellerophonSimple",
			"metadata": {"name": "example-bellerophon-hero1", "generation": 3},
			"spec": {"winged_horse_name": "pegasusio", "image": "server:v1", "replicas": 7},
			"status": {"observedGeneration": 3, "replicas": 7, "readyReplicas": 6, "selector": "a=b",
				"conditions": [{"type": "Ready", "status": "False", "reason": "ReplicasNotReady"}]}}`
		codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
		object, _, err := codecs.UniversalDeserializer().Decode([]byte(manifest), nil, nil)
		if err != nil {
			t.Fatalf("version %s: %v", version, err)
		}
		return object
	}
	stored := read("v1").(*v1.BellerophonSimple)
	served := read("v444beta989").(*v444beta989.BellerophonSimple)
	if stored.Spec.WingedHorseName != "pegasusio" || stored.Spec.Replicas == nil || *stored.Spec.Replicas != 7 || stored.Status.ReadyReplicas != 6 {
		t.Errorf("read %+v", stored)
	}
	if !reflect.DeepEqual(stored.Spec, served.Spec) || !reflect.DeepEqual(stored.Status, served.Status) {
		t.Errorf("the versions read one manifest as\n%+v and\n%+v", stored, served)
	}
}
