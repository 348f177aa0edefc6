package simple_test

import (
	"fmt"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAnObjectThatKeepsChangingIsWorkedOnMeanwhileAndEndsWithItsLastChange(t *testing.T) {
	const (
		changes  = 50
		every    = 100 * time.Millisecond
		longest  = 2 * time.Second // rests and their doubles
		patience = 5 * time.Second // of a busy machine, beside a rest
	)
	w := newWorldWithOperator(t)
	w.create(w.hero("pegasus", 0))
	w.awaitReady("pegasus", 0)
	before, began := w.writes()["configmaps"], time.Now()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for i := range changes {
		w.change("pegasus", fmt.Sprintf(`{"spec":{"winged_horse_name":"horse %d"}}`, i))
		<-ticker.C
	}
	last, lasted := time.Now(), time.Since(began)
	w.awaitCondition("pegasus", v1.ConditionReady, func(hero *v1.BellerophonSimple, _ *metav1.Condition) bool {
		return hero.Spec.WingedHorseName == fmt.Sprint("horse ", changes-1)
	})
	if took := time.Since(last); took > longest+patience {
		t.Errorf("the last change took %v, want at most %v", took, longest+patience)
	}
	w.await(configMaps, "pegasus", "that of the last change", func(object *unstructured.Unstructured) bool {
		horse, _, _ := unstructured.NestedString(object.Object, "data", "winged_horse_name")
		return horse == fmt.Sprint("horse ", changes-1)
	})
	// The first change and the last one, and one each second or two in between.
	written := w.writes()["configmaps"] - before
	if least, most := lasted/longest, lasted/time.Second+2; written < float64(least) || written > float64(most) {
		t.Errorf("%d changes within %v took %v writes of the ConfigMap, want %d to %d", changes, lasted, written, least, most)
	}
}
