package operators_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var setKind = schema.GroupKind{Group: "apps", Kind: "StatefulSet"}

// owned returns a pod with owner references. An owner "!set" is the controlling one.
func owned(name string, owners ...string) *metav1.PartialObjectMetadata {
	made := pod(name, name, "1")
	for _, owner := range owners {
		controls := strings.HasPrefix(owner, "!")
		made.OwnerReferences = append(made.OwnerReferences, metav1.OwnerReference{
			APIVersion: "apps/v1", Kind: "StatefulSet", Name: strings.TrimPrefix(owner, "!"), Controller: &controls,
		})
	}
	return made
}

// change returns a change of a pod, with a version as its cause, received at that second.
func change(version int, before, after streams.Object) streams.Change {
	object := after
	if object == nil {
		object = before
	}
	received := time.Unix(int64(version), 0)
	key := streams.KeyOf(podKind, object)
	return streams.Change{
		Type: streams.Updated, Key: key, Old: before, New: after, Received: received,
		Causes: []streams.Cause{{Type: streams.Applied, Key: key, ResourceVersion: fmt.Sprint(version), Received: received}},
	}
}

// requested formats a request as controller/name(versions of causes).
func requested(request operators.Request) string {
	var versions []string
	for _, cause := range request.Causes {
		versions = append(versions, cause.ResourceVersion)
	}
	return fmt.Sprintf("%s/%s(%s)", request.Controller, request.Name, strings.Join(versions, " "))
}

func triggered(t *testing.T, changes []streams.Change, rules ...operators.Rule) []string {
	t.Helper()
	requests, errs := streams.Collect(t.Context(), operators.Trigger(streams.Of(changes...), operators.NewRules(rules...)))
	if len(errs) > 0 {
		t.Error(errs)
	}
	var all []string
	for _, request := range requests {
		all = append(all, requested(request))
	}
	return all
}

var (
	self   = operators.Rule{Controller: "pods", Kind: podKind}
	owners = operators.Rule{Controller: "sets", Kind: podKind, Map: operators.Owner(setKind)}
)

func TestTriggerAsksForWhomAChangeConcerns(t *testing.T) {
	a, b := owned("a", "!x"), owned("b", "other", "!y")
	for name, test := range map[string]struct {
		changes []streams.Change
		rules   []operators.Rule
		want    string
	}{
		"the object itself":              {[]streams.Change{change(1, nil, a), change(2, b, nil)}, []operators.Rule{self}, "[pods/a(1) pods/b(2)]"},
		"its controlling owner":          {[]streams.Change{change(1, nil, a), change(2, b, nil)}, []operators.Rule{owners}, "[sets/x(1) sets/y(2)]"},
		"both":                           {[]streams.Change{change(1, a, a)}, []operators.Rule{self, owners}, "[pods/a(1) sets/x(1)]"},
		"the old owner and the new one":  {[]streams.Change{change(1, a, owned("a", "!y"))}, []operators.Rule{owners}, "[sets/y(1) sets/x(1)]"},
		"the owner that is no more":      {[]streams.Change{change(1, a, owned("a"))}, []operators.Rule{owners}, "[sets/x(1)]"},
		"the owner that is new":          {[]streams.Change{change(1, owned("a"), a)}, []operators.Rule{owners}, "[sets/x(1)]"},
		"nobody without an owner":        {[]streams.Change{change(1, nil, owned("a", "x"))}, []operators.Rule{owners}, "[]"},
		"nobody by an owner of a kind":   {[]streams.Change{change(1, nil, a)}, []operators.Rule{{Controller: "c", Kind: podKind, Map: operators.Owner(schema.GroupKind{Group: "apps", Kind: "ReplicaSet"})}}, "[]"},
		"nor of a group":                 {[]streams.Change{change(1, nil, a)}, []operators.Rule{{Controller: "c", Kind: podKind, Map: operators.Owner(schema.GroupKind{Group: "x", Kind: "StatefulSet"})}}, "[]"},
		"nobody by a kind without rules": {[]streams.Change{change(1, nil, a)}, []operators.Rule{{Controller: "c", Kind: setKind}}, "[]"},
		"in the order of the changes": {
			[]streams.Change{change(1, nil, a), change(2, nil, b), change(3, a, a)},
			[]operators.Rule{owners}, "[sets/x(1) sets/y(2) sets/x(3)]",
		},
		"once by two rules": {[]streams.Change{change(1, nil, a)}, []operators.Rule{self, self}, "[pods/a(1)]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fmt.Sprint(triggered(t, test.changes, test.rules...)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestAnOwnerWithoutNamespacesIsAskedForWithoutOne(t *testing.T) {
	cluster := owners
	cluster.Map = operators.ClusterOwner(setKind)
	other := owners
	other.Map = operators.ClusterOwner(schema.GroupKind{Group: "x", Kind: "StatefulSet"})
	changes := []streams.Change{change(1, nil, owned("a", "!x")), change(2, owned("b", "!x"), owned("b")), change(3, nil, owned("c", "x"))}
	requests, errs := streams.Collect(t.Context(), operators.Trigger(streams.Of(changes...), operators.NewRules(cluster, other)))
	var got []string
	for _, request := range requests {
		got = append(got, requested(request))
		if request.Namespace != "" {
			t.Errorf("the owner is asked for in namespace %q", request.Namespace)
		}
	}
	if want := []string{"sets/x(1)", "sets/x(2)"}; len(errs) > 0 || !slices.Equal(got, want) {
		t.Errorf("got %v and %v, want %v", got, errs, want)
	}
}

func TestTriggerMakesNoRequestWhereWhenIsFalse(t *testing.T) {
	deaf := self
	deaf.When = func(change streams.Change) bool { return change.New != nil }
	got := triggered(t, []streams.Change{change(1, nil, owned("a")), change(2, owned("a"), nil)}, deaf, owners)
	if want := []string{"pods/a(1)"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTheRequestForAnObjectIsEarlyIfARuleSaysSoOfItsNewState(t *testing.T) {
	fresh := self
	fresh.BeforeSync = func(object streams.Object) bool { return object.GetName() == "fresh" }
	changes := []streams.Change{change(1, nil, owned("fresh", "!x")), change(2, nil, owned("old")), change(3, owned("fresh"), nil)}
	for _, rules := range [][]operators.Rule{{fresh, self, owners}, {self, fresh, owners}} {
		requests, errs := streams.Collect(t.Context(), operators.Trigger(streams.Of(changes...), operators.NewRules(rules...)))
		var early []string
		for _, request := range requests {
			if request.BeforeSync {
				early = append(early, requested(request))
			}
		}
		if want := []string{"pods/fresh(1)"}; len(errs) > 0 || len(requests) != 4 || !slices.Equal(early, want) {
			t.Errorf("of %v early are %v, want %v, %v", requests, early, want, errs)
		}
	}
}

func TestRequestsThatAreJoinedWereReceivedWithTheOldestOfTheirCauses(t *testing.T) {
	requests := operators.Trigger(
		streams.Of(change(7, nil, owned("a", "!x")), change(3, nil, owned("b", "!x")), change(5, nil, owned("c", "!x"))), operators.NewRules(owners))
	idle := operators.Controller{Reconcile: func(context.Context, operators.Request) (time.Duration, error) { return 0, nil }}
	results, _ := streams.Collect(t.Context(),
		operators.Reconcile(requests, operators.NewControllers(map[string]operators.Controller{"sets": idle}), operators.ReconcileOptions{}))
	if len(results) != 1 || results[0].Received != time.Unix(3, 0) || requested(results[0].Request) != "sets/x(7 3 5)" {
		t.Errorf("got %+v", results)
	}
}

func TestTriggerLeavesWhatRulesReturnAlone(t *testing.T) {
	// A Map may return part of a slice that it keeps: here the owners of all pods.
	kept := []types.NamespacedName{podName("x"), podName("y")}
	rule := operators.Rule{Controller: "sets", Kind: podKind, Map: func(object streams.Object) []types.NamespacedName {
		if object.GetResourceVersion() == "1" {
			return kept[:1]
		}
		return []types.NamespacedName{podName("z")}
	}}
	got := triggered(t, []streams.Change{change(2, pod("a", "a", "0"), pod("a", "a", "1"))}, rule)
	if want := []string{"sets/x(2)", "sets/z(2)"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if kept[1] != podName("y") {
		t.Errorf("what the rule keeps became %v", kept)
	}
}

func TestARuleThatPanicsIsAnErrorAndTheOtherRulesGoOn(t *testing.T) {
	bad := operators.Rule{Controller: "bad", Kind: podKind, Map: func(streams.Object) []types.NamespacedName { panic("broken") }}
	good := operators.Rule{Controller: "good", Kind: podKind}
	changes := streams.Of(change(2, nil, pod("a", "a", "1")), change(3, nil, pod("b", "b", "1")))
	requests, errs := streams.Collect(t.Context(), operators.Trigger(changes, operators.NewRules(bad, good)))
	if len(requests) != 2 || requests[0].Controller != "good" || requests[1].Controller != "good" {
		t.Errorf("requests %v, want one of the good rule for each change", requests)
	}
	var failed *streams.Error
	if len(errs) != 1 || !errors.As(errs[0], &failed) || failed.Source != "rule of bad" || failed.Key.Name != "a" || strings.Count(errs[0].Error(), "rule of bad") != 2 {
		t.Errorf("errors %v, want those of the bad rule for each change, with its key", errs)
	}
}

func TestARuleMayMapTheWholeChange(t *testing.T) {
	moved := operators.Rule{Controller: "moves", Kind: podKind, MapChange: func(change streams.Change) []types.NamespacedName {
		if change.Old == nil || change.New == nil {
			return nil
		}
		return []types.NamespacedName{{Name: change.Old.GetLabels()["at"] + "-" + change.New.GetLabels()["at"]}, change.Key.NamespacedName}
	}}
	at := func(place string, generation int64) *metav1.PartialObjectMetadata {
		made := owned("a")
		made.Labels, made.Generation = map[string]string{"at": place}, generation
		return made
	}
	changes := []streams.Change{change(1, nil, at("x", 1)), change(2, at("x", 1), at("y", 2)), change(3, at("y", 2), at("z", 2)), change(4, at("z", 2), nil)}
	requests, errs := streams.Collect(t.Context(), operators.Trigger(streams.Of(changes...), operators.NewRules(moved)))
	if len(errs) > 0 {
		t.Error(errs)
	}
	var got []string
	for _, request := range requests {
		got = append(got, fmt.Sprintf("%s %t", requested(request), request.SpecChanged))
	}
	want := []string{"moves/x-y(2) false", "moves/a(2) true", "moves/y-z(3) false", "moves/a(3) false"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
