package compat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

func TestAChangeIsTheEventsThatControllerRuntimeWouldSee(t *testing.T) {
	type change = controller.ChangeOf[streams.Object]
	object := func(uid, version string, generation int64) streams.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: types.UID(uid), ResourceVersion: version, Generation: generation}}
	}
	for _, test := range []struct {
		name   string
		change change
		want   string // the events; one that GenerationChangedPredicate leaves out is in parentheses
	}{
		{"an object of a list", change{New: object("1", "1", 1), Causes: []streams.Cause{{Type: streams.Listed}}}, "create true"},
		{"a new object", change{New: object("1", "1", 1), Causes: []streams.Cause{{Type: streams.Applied}}}, "create false"},
		{"a change of the status", change{Old: object("1", "1", 1), New: object("1", "2", 1)}, "(update 1 2)"},
		{"a change of the spec", change{Old: object("1", "1", 1), New: object("1", "2", 2)}, "update 1 2"},
		{"an own write that was overwritten", change{Old: object("1", "2", 2), New: object("1", "3", 3)}, "update 2 3"},
		{"a recreation", change{Old: object("1", "1", 1), New: object("2", "2", 1)}, "delete 1 create false"},
		{"a change of an object without versions", change{Old: object("1", "", 1), New: object("1", "", 2)}, "update  "},
		{"a repeated state", change{Old: object("1", "1", 1), New: object("1", "1", 1)}, ""},
		{"nothing", change{}, ""},
		{"a deletion", change{Old: object("1", "1", 1)}, "delete 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			by := []predicate.Predicate{predicate.ResourceVersionChangedPredicate{}, predicate.GenerationChangedPredicate{}}
			if strings.Contains(test.name, "without versions") {
				by = by[1:]
			}
			note := func(passes bool, format string, values ...any) {
				if text := fmt.Sprintf(format, values...); passes {
					got = append(got, text)
				} else {
					got = append(got, "("+text+")")
				}
			}
			visit(test.change, observer{
				created: func(made event.CreateEvent) {
					note(allow(by, made, predicate.Predicate.Create), "create %t", made.IsInInitialList)
				},
				updated: func(made event.UpdateEvent) {
					note(allow(by, made, predicate.Predicate.Update), "update %s %s", made.ObjectOld.GetResourceVersion(), made.ObjectNew.GetResourceVersion())
				},
				deleted: func(made event.DeleteEvent) {
					note(allow(by, made, predicate.Predicate.Delete), "delete %s", made.Object.GetUID())
				},
			})
			if strings.Join(got, " ") != test.want {
				t.Errorf("the events are %q, want %q", got, test.want)
			}
		})
	}
}
