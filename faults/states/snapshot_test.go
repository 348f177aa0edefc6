package states

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func objectOf(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: canonical(content).(map[string]any)}
}

func TestWhatDiffersBetweenAnyTwoObjectsIsLeftOut(t *testing.T) {
	made := func(namespace, uid, time string, generation string) snapshot {
		return snapshotOf(namespace, []*unstructured.Unstructured{objectOf(t, `
kind: Thing
metadata: {name: a, namespace: `+namespace+`, uid: `+uid+`, resourceVersion: "`+generation+`", generation: `+generation+`, creationTimestamp: "`+time+`",
  ownerReferences: [{kind: Owner, name: b, uid: `+uid+`}]}
spec: {host: a.`+namespace+`.svc, size: 3}
status: {observedGeneration: `+generation+`, conditions: [{type: Ready, status: "True", lastTransitionTime: "`+time+`"}]}`)})
	}
	a := made("states-1", "123e4567-e89b-42d3-a456-426614174000", "2026-01-02T03:04:05Z", "1")
	b := made("states-22", "223e4567-e89b-42d3-a456-426614174000", "2027-01-02T03:04:05Z", "7")
	if found := differences(a, b, mask{}); len(found) > 0 {
		t.Errorf("the snapshots differ: %v", found)
	}
	if a["Thing a:.spec.size"] != "3" || a["Thing a:.status.conditions[type=Ready].status"] != `"True"` {
		t.Errorf("the snapshot lacks fields: %v", a)
	}
}

func TestTheOrderOfConditionsIsNoDifferenceAndTheirStatusIs(t *testing.T) {
	made := func(conditions string) snapshot {
		return snapshotOf("states-n", []*unstructured.Unstructured{objectOf(t, "{kind: Thing, metadata: {name: a}, status: {conditions: ["+conditions+"]}}")})
	}
	a := made(`{type: A, status: "True"}, {type: B, status: "False"}`)
	if found := differences(made(`{type: B, status: "False"}, {type: A, status: "True"}`), a, mask{}); len(found) > 0 {
		t.Errorf("the order is a difference: %v", found)
	}
	if found := differences(made(`{type: A, status: "True"}, {type: A, status: "True"}, {type: B, status: "False"}`), a, mask{}); len(found) != 2 {
		t.Errorf("a condition that is there twice: %v", found)
	}
	found := differences(made(`{type: A, status: "False"}, {type: B, status: "False"}`), a, mask{})
	if len(found) != 1 || found[0].String() != `Thing a: status.conditions[type=A].status is "False"; a fresh object has "True"` {
		t.Errorf("found %v", found)
	}
}

func TestGeneratedNamesAreReplacedByTheirOrder(t *testing.T) {
	made := func(suffixes ...string) snapshot {
		var objects []*unstructured.Unstructured
		for i, suffix := range suffixes {
			objects = append(objects, objectOf(t, `{kind: Pod, metadata: {name: web-`+suffix+`, generateName: web-}, spec: {host: web-`+suffix+`, part: `+string(rune('a'+i))+`}}`))
		}
		return snapshotOf("states-n", objects)
	}
	if found := differences(made("xk2p1", "b8s7d"), made("c9fq2", "zz0k4"), mask{}); len(found) > 0 {
		t.Errorf("the names are a difference: %v", found)
	}
	if found := differences(made("0", "1"), made("0"), mask{}); len(found) == 0 {
		t.Error("a further pod of a StatefulSet is no difference")
	}
}

func TestTheMaskHoldsTheFieldsOfAKindThatDifferByThemselves(t *testing.T) {
	pods := func(first, second string) snapshot {
		return snapshotOf("states-n", []*unstructured.Unstructured{
			objectOf(t, `{kind: Pod, metadata: {name: a-0}, spec: {image: i}, status: {podIPs: [{ip: `+first+`}]}}`),
			objectOf(t, `{kind: Pod, metadata: {name: a-1}, spec: {image: i}, status: {podIPs: [{ip: `+second+`}]}}`),
		})
	}
	learned := mask{}
	learned.learn(pods("1.1.1.1", "1.1.1.2"), pods("1.1.1.3", "1.1.1.2"))
	if found := differences(pods("1.1.1.1", "1.1.1.4"), pods("1.1.1.1", "1.1.1.2"), learned); len(found) > 0 {
		t.Errorf("the mask leaves %v", found)
	}
	learned.learn(pods("1.1.1.1", "1.1.1.2"), snapshot{})
	if found := differences(snapshot{}, pods("1.1.1.1", "1.1.1.2"), learned); len(found) == 0 {
		t.Error("missing objects are masked")
	}
}

func TestTheConditionsAreTheAnswer(t *testing.T) {
	for text, want := range map[string]Verdict{
		`{}`: Pending,
		`{conditions: [{type: Ready, status: "True"}, {type: Degraded, status: "False"}]}`:                                       Healthy,
		`{conditions: [{type: Ready, status: "True"}, {type: Degraded, status: "True", message: "spec.a"}]}`:                     Unhealthy,
		`{conditions: [{type: Ready, status: "False"}, {type: Progressing, status: "True"}]}`:                                    Pending,
		`{conditions: [{type: Ready, status: "False", reason: "NoSuchImage"}]}`:                                                  Unhealthy,
		`{conditions: [{type: Available, status: "True"}, {type: Ready, status: "False"}, {type: Reconciling, status: "True"}]}`: Pending,
	} {
		if got, _ := Conditions(objectOf(t, `{kind: K, status: `+text+`}`)); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

func TestAnOldStatusIsNoAnswer(t *testing.T) {
	for text, want := range map[string]bool{
		`{observedGeneration: 2}`: true, `{observedGeneration: 1}`: false, `{}`: true,
		`{conditions: [{type: Ready, observedGeneration: 1}]}`: false,
	} {
		if got := isCurrent(objectOf(t, `{kind: K, metadata: {generation: 2}, status: `+text+`}`)); got != want {
			t.Errorf("%s is current: %v, want %v", text, got, want)
		}
	}
}

func TestAReportNamesTheFieldByItsNameItsPathOrItsValue(t *testing.T) {
	s := state{[]change{{&field{path: []string{"spec", "image"}}, value{set: "registry.invalid/a"}}}}
	for text, want := range map[string]bool{
		`spec.image is wrong`: true, `Image: not found`: true, `cannot pull "registry.invalid/a"`: true,
		`imagery`: false, `the API server refused the write`: false, ``: false,
	} {
		if got := s.names(text); got != want {
			t.Errorf("%q names the field: %v, want %v", text, got, want)
		}
	}
}

func TestOnlySuccessfulWritesOfTheResourcesAreCounted(t *testing.T) {
	page := `# HELP apiserver_request_total x
apiserver_request_total{code="200",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="PATCH",version="v1"} 3
apiserver_request_total{code="201",dry_run="",group="",resource="configmaps",subresource="",verb="POST",version="v1"} 2
apiserver_request_total{code="409",dry_run="",group="",resource="configmaps",subresource="",verb="POST",version="v1"} 9
apiserver_request_total{code="201",dry_run="All",group="",resource="configmaps",subresource="",verb="POST",version="v1"} 9
apiserver_request_total{code="200",dry_run="",group="",resource="configmaps",subresource="",verb="LIST",version="v1"} 9
apiserver_request_total{code="200",dry_run="",group="example.org",resource="things",subresource="status",verb="PUT",version="v1"} 1
apiserver_request_total{code="200",dry_run="",group="",resource="leases",subresource="",verb="PUT",version="v1"} 9
`
	got := must(countWrites(strings.NewReader(page), map[string]bool{"configmaps": true, "things.example.org": true}))(t)
	if len(got) != 2 || got["configmaps"] != 5 || got["things.example.org/status"] != 1 {
		t.Errorf("counted %v", got)
	}
}

func TestTheGoalsSayWhatIsMissed(t *testing.T) {
	var text strings.Builder
	report := Report{Walks: 8, Planned: 10, Misuses: 4, Problems: []Problem{{EndsAsFresh, "w", "a"}, {EndsAsFresh, "w", "b"}, {AnswersMisuse, "v", ""}}, Writes: map[string]float64{}}
	if err := report.WriteGoals(&text, "it: "); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"goal\tit: states: walks of the plan finished\t8 of 10\tall\tmissed\n", "walks that end as a fresh object\t7 of 8\tall\tmissed\n",
		"misuses answered with the field\t3 of 4\tall\tmissed\n", "deletions that leave something\t0\t0\tmet\n", "after quiet\t0\t0\tmet\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the goals lack %q:\n%s", want, text.String())
		}
	}
}
