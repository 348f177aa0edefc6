package replaytest

import (
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
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
