package controller_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/bellerophon-io/bellerophon/controller"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func TestAConditionKeepsItsTransitionTimeUntilItsStatusChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conditions []metav1.Condition
		set := func(generation int64, status metav1.ConditionStatus, message string, want bool) *metav1.Condition {
			t.Helper()
			changed := controller.SetConditions(&conditions, generation, metav1.Condition{Type: "Ready", Status: status, Reason: "R", Message: message})
			if changed != want {
				t.Errorf("generation %d, %s, %q: changed is %t", generation, status, message, changed)
			}
			return meta.FindStatusCondition(conditions, "Ready")
		}
		first := *set(1, metav1.ConditionFalse, "a", true)
		<-time.After(time.Minute)
		set(1, metav1.ConditionFalse, "a", false)
		if second := *set(2, metav1.ConditionFalse, "b", true); second.LastTransitionTime != first.LastTransitionTime || second.ObservedGeneration != 2 || second.Message != "b" {
			t.Errorf("after a change of the message it is %+v, before %+v", second, first)
		}
		if third := set(2, metav1.ConditionTrue, "b", true); third.LastTransitionTime.Sub(first.LastTransitionTime.Time) != time.Minute {
			t.Errorf("after a change of the status it is %+v, before %+v", third, first)
		}
		// A condition of an older program may have no transition time.
		conditions[0].LastTransitionTime = metav1.Time{}
		if set(2, metav1.ConditionTrue, "b", true).LastTransitionTime.IsZero() {
			t.Error("a missing transition time is kept")
		}
	})
}

func TestConditionsHaveOneOrderAndOthersStayAsTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := rapid.Permutation([]string{"Available", "Degraded", "Ready", "Theirs"}).Draw(t, "types")
		theirs := metav1.Condition{Type: "Theirs", Status: metav1.ConditionTrue, ObservedGeneration: 7, Reason: "x"}
		var conditions []metav1.Condition
		for _, of := range types {
			if of == "Theirs" {
				conditions = append(conditions, theirs)
				continue
			}
			before := slices.Clone(conditions)
			controller.SetConditions(&conditions, 9, metav1.Condition{Type: of, Status: metav1.ConditionTrue, Reason: "x"})
			if len(conditions) != len(before)+1 {
				t.Fatalf("%s is set: %v", of, conditions)
			}
		}
		controller.SetConditions(&conditions, 9)
		var order []string
		for _, condition := range conditions {
			order = append(order, condition.Type)
		}
		if !slices.IsSorted(order) || len(order) != 4 || *meta.FindStatusCondition(conditions, "Theirs") != theirs {
			t.Fatalf("the conditions are %v", conditions)
		}
		if controller.SetConditions(&conditions, 9, rapid.Permutation(conditions).Draw(t, "again")...) && meta.FindStatusCondition(conditions, "Theirs").ObservedGeneration != 9 {
			t.Fatal("the same conditions in another order are a change")
		}
	})
}

func TestAConditionIsCutToWhatTheAPIServerAllows(t *testing.T) {
	var conditions []metav1.Condition
	controller.SetConditions(&conditions, 1, metav1.Condition{Type: "Ready", Message: strings.Repeat("ß", 40000) + "\xff", Reason: strings.Repeat("r", 2000)})
	got := conditions[0]
	if n := utf8.RuneCountInString(got.Message); n != 32768 || !strings.HasSuffix(got.Message, "ß…") || len(got.Reason) != 1024 || got.Status != metav1.ConditionUnknown {
		t.Errorf("the message has %d characters, the reason %d, the status is %q", n, len(got.Reason), got.Status)
	}
	controller.SetConditions(&conditions, 1, metav1.Condition{Type: "Ready", Message: "a\xffb"})
	if conditions[0].Reason != "Unspecified" || !utf8.ValidString(conditions[0].Message) {
		t.Errorf("it is %+v", conditions[0])
	}
}
