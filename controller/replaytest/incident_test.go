package replaytest

import (
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/operators"
	"k8s.io/apimachinery/pkg/types"
)

func TestAnIncidentWhoseAttemptIsNotMadeIsNoSuccess(t *testing.T) {
	incident := Incident{ID: "one", Controller: "renamed"}
	err := incident.check(&controller.Replayed{Skipped: 1, Made: []controller.Made{{ID: "another"}}})
	if err == nil || !strings.Contains(err.Error(), "renamed") {
		t.Errorf("without the attempt, the error is %v", err)
	}
	if err := incident.check(&controller.Replayed{Made: []controller.Made{{ID: "one"}}}); err != nil {
		t.Errorf("of an attempt that succeeds, the error is %v", err)
	}
}

// The ID becomes a part of names of files, and of a program.
func TestAnIncidentWithAnIDThatIsAPathIsRefused(t *testing.T) {
	for _, id := range []string{"a/../../../x", "1\nfunc init() {}", "", `1"`} {
		start := &recording.Start{Attempt: 1, ID: id, Request: operators.Request{Controller: "c", NamespacedName: types.NamespacedName{Name: "o"}}}
		of := &recording.Recording{Records: []*recording.Record{{Start: start}, {End: &recording.End{Attempt: 1, Err: "no"}}}}
		if found, err := FindIncident(of, "", types.NamespacedName{Name: "o"}); err == nil {
			t.Errorf("%q is accepted: %v", id, found)
		}
	}
}
