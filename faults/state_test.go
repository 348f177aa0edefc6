package faults

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// child returns a state with an owner and a child.
func child(namespace, uid, owner, time, colour string) State {
	object := func(kind, name, uid string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"kind": kind, "metadata": map[string]any{
				"name": name, "namespace": namespace, "uid": uid, "resourceVersion": uid, "generation": int64(len(uid)), "creationTimestamp": time,
			},
			"status": map[string]any{"observedGeneration": int64(len(uid)), "since": time, "message": "in " + namespace},
		}}
	}
	made := object("Secret", "child", uid)
	made.Object["data"] = colour
	made.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"kind": "ConfigMap", "name": "owner", "uid": owner}}
	return State{"configmaps/owner": object("ConfigMap", "owner", "1"), "secrets/child": made}
}

func TestWhatIsUniqueToARunIsNoDifference(t *testing.T) {
	one := normal(child("faults-a", "22", "1", "2026-01-01T00:00:00Z", "red"), "faults-a")
	for name, test := range map[string]struct {
		state State
		want  string
	}{
		"another run":     {child("faults-b", "333", "1", "2026-02-02T02:02:02Z", "red"), ""},
		"another value":   {child("faults-b", "22", "1", "2026-01-01T00:00:00Z", "blue"), `secrets/child.data is "blue", want "red"`},
		"an orphan":       {child("faults-b", "22", "9", "2026-01-01T00:00:00Z", "red"), `secrets/child.metadata.ownerReferences[0].uid is "owner is gone", want "owner exists"`},
		"an object fewer": {State{"configmaps/owner": child("faults-b", "", "", "2026-01-01T00:00:00Z", "")["configmaps/owner"]}, `secrets/child.data is missing, want "red"`},
	} {
		found := strings.Join(differences(one, normal(test.state, "faults-b"), nil), "\n")
		if !strings.Contains(found, test.want) || test.want == "" && found != "" {
			t.Errorf("%s: found %q, want %q", name, found, test.want)
		}
	}
	mask := map[string]bool{"secrets/child.data": true}
	if found := differences(one, normal(child("faults-b", "22", "1", "2026-01-01T00:00:00Z", "blue"), "faults-b"), mask); len(found) > 0 {
		t.Errorf("with a mask: %q", found)
	}
}

func TestAnEventStandsForTheOnesThatAreNotDelivered(t *testing.T) {
	for _, test := range []struct{ first, last, want string }{
		{"ADDED", "MODIFIED", "ADDED"}, {"ADDED", "DELETED", ""}, {"MODIFIED", "MODIFIED", "MODIFIED"},
		{"MODIFIED", "DELETED", "DELETED"}, {"DELETED", "ADDED", "MODIFIED"},
	} {
		merged := merge(&event{Type: test.first}, &event{Type: test.last})
		if got := merged; got == nil && test.want != "" || got != nil && got.Type != test.want {
			t.Errorf("%s and %s are %v, want %q", test.first, test.last, got, test.want)
		}
	}
}

func TestASampleIsSpreadAndARunGoesOnWhereTheLastOneEnded(t *testing.T) {
	all := []string{"a 1", "a 2", "a 3", "a 4", "b 5", "b 6"}
	if chosen := (Options{Sample: 3}).chosen(all); !slices.Equal(chosen, []string{"a 1", "a 3", "b 5"}) {
		t.Errorf("of three: %q", chosen)
	}
	if chosen := (Options{Only: regexp.MustCompile("^b")}).chosen(all); !slices.Equal(chosen, []string{"b 5", "b 6"}) {
		t.Errorf("by name: %q", chosen)
	}
	folder, ran := t.TempDir(), []string{}
	slice := func(limit time.Duration, atOnce int) *Report {
		report := &Report{Subject: "s", Pattern: "a pattern"}
		err := report.load(folder)
		if err == nil {
			err = report.each(Options{Folder: folder, Limit: limit, Progress: func(string) {}}, all, atOnce, func(names []string) ([]Outcome, error) {
				ran = append(ran, names...)
				<-time.After(2 * time.Millisecond)
				outcomes := make([]Outcome, len(names))
				outcomes[0].Struck = names[0] != "a 1"
				return outcomes, nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if first := slice(time.Millisecond, 2); first.Left != 2 || len(first.Outcomes) != 4 { // Faults of the first two did not happen.
		t.Errorf("the first slice left %d cases and has %d outcomes", first.Left, len(first.Outcomes))
	}
	if second := slice(0, 1); second.Left != 0 || !slices.Equal(slices.Sorted(maps.Keys(second.Outcomes)), all) {
		t.Errorf("the second slice left %d cases and has %v", second.Left, second.Outcomes)
	}
	if !slices.Equal(ran, all) {
		t.Errorf("ran %q", ran)
	}
}

func TestAReportSaysWhatWasMeasuredAndWhatWasMissed(t *testing.T) {
	report := &Report{Subject: "s", Pattern: streamsAndWrites, LateWrites: 1, Quiet: time.Minute, Outcomes: map[string]Outcome{
		"a, b": {Struck: true, Recovery: time.Second}, "c": {Struck: true, Failure: errors.New("wrong").Error(), Recovery: 7 * time.Second, Relists: 2}, "d": {},
	}}
	var goals, table strings.Builder
	if err := errors.Join(WriteGoals(&goals, report), WriteTable(&table, report)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"goal\tstreams and writes s: survived\t50.0 % (1 of 2)\t100 %\tmissed\n",
		"goal\tstreams and writes s: differences without a fault\t0\t0\tmet\n",
		"goal\tstreams and writes s: writes in 1m0s after quiet\t1\t0\tmissed\n",
		"goal\tstreams and writes s: recovery p99\t7s\t<= 5s\tmissed\n",
		"goal\tstreams and writes s: relists of a kind after a fault\t2\t<= 1\tmissed\n",
	} {
		if !strings.Contains(goals.String(), line) {
			t.Errorf("no line %q in\n%s", line, goals.String())
		}
	}
	if lines := strings.Count(table.String(), "\n"); lines != 4 || !strings.Contains(table.String(), "0 of 1") {
		t.Errorf("the table is\n%s", table.String())
	}
}
