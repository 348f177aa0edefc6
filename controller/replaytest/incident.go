package replaytest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"k8s.io/apimachinery/pkg/types"
)

// Incident is an attempt that did something wrong: it failed, or it sent a write.
type Incident struct {
	Controller string
	Object     types.NamespacedName
	ID         string // the reconcileID of the attempt

	// Write is the method and the path of the write. It is empty for an attempt that failed.
	Write string
}

// String describes what must not happen.
func (i Incident) String() string {
	if i.Write != "" {
		return fmt.Sprintf("the attempt %s of %s for %s sends %s", i.ID, i.Controller, i.Object, i.Write)
	}
	return fmt.Sprintf("the attempt %s of %s for %s fails", i.ID, i.Controller, i.Object)
}

// attemptID matches what [operators.AttemptID] returns.
var attemptID = regexp.MustCompile(`^[0-9a-f]{1,64}$`)

// FindIncident returns what a recording has of an object: the last attempt that failed or, without one, the last write
// of the last attempt that wrote. An empty controller stands for any.
func FindIncident(of *recording.Recording, name string, object types.NamespacedName) (Incident, error) {
	started := map[uint64]*recording.Start{}
	var failed, wrote *Incident
	attempts := 0
	for _, record := range of.Records {
		if start := record.Start; start != nil && start.Name() == object && (name == "" || start.Request.Controller == name) {
			started[start.Attempt] = start
			attempts++
		}
		start := started[record.Attempt()]
		if start == nil {
			continue
		}
		incident := Incident{Controller: start.Request.Controller, Object: object, ID: start.ID}
		switch {
		case record.End != nil && !record.End.Cancelled && (record.End.Err != "" || record.End.Panicked):
			failed = &incident
		case record.Exchange != nil && record.Exchange.Method != "GET":
			path, _, _ := strings.Cut(record.Exchange.URL, "?")
			incident.Write = record.Exchange.Method + " " + path
			wrote = &incident
		}
	}
	switch found := cmp.Or(failed, wrote); {
	case found != nil && !attemptID.MatchString(found.ID): // It becomes a part of names of files.
		return Incident{}, fmt.Errorf("finding an incident: the recording has the ID %q of an attempt, which no operator makes", found.ID)
	case found != nil:
		return *found, nil
	case attempts > 0:
		return Incident{}, fmt.Errorf("finding an incident: the %d attempts for %s neither failed nor wrote anything", attempts, object)
	}
	return Incident{}, fmt.Errorf("finding an incident: the recording has no attempt for %s", object)
}

// reads returns what the attempt has read in a replay.
func (i Incident) reads(replayed *controller.Replayed) []uint64 {
	for _, made := range replayed.Made {
		if made.ID == i.ID {
			return made.Reads
		}
	}
	return nil
}

// happens returns how the incident happens in a replay, or an empty text.
func (i Incident) happens(replayed *controller.Replayed) string {
	for _, made := range replayed.Made {
		if made.ID != i.ID {
			continue
		}
		if i.Write == "" && made.Err != nil {
			return "it failed: " + made.Err.Error()
		}
		for _, request := range made.Requests {
			if path, _, _ := strings.Cut(request, "?"); i.Write != "" && path == i.Write {
				return "it sent " + request
			}
		}
	}
	return ""
}

// check returns an error if the incident happens in a replay, or if its attempt was not made.
func (i Incident) check(replayed *controller.Replayed) error {
	if !slices.ContainsFunc(replayed.Made, func(made controller.Made) bool { return made.ID == i.ID }) {
		return fmt.Errorf("the attempt %s was not made, so this shows nothing (%d were skipped): has setup a controller with the name %q?",
			i.ID, replayed.Skipped, i.Controller)
	}
	if how := i.happens(replayed); how != "" {
		return fmt.Errorf("%v: %s", i, how)
	}
	return nil
}

// DoesNotHappen replays a recording, and fails the test if the incident happens, or if its attempt is not made: setup may
// lack the controller.
func DoesNotHappen(t *testing.T, path string, setup controller.Setup, incident Incident) {
	t.Helper()
	of, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := incident.check(Replay(t, of, setup)); err != nil {
		t.Error(err)
	}
}

// Happens replays a recording, and returns how the incident happens, or an empty text.
func Happens(t *testing.T, of *recording.Recording, setup controller.Setup, incident Incident) string {
	t.Helper()
	return incident.happens(Replay(t, of, setup))
}
