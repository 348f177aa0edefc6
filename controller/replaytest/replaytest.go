// Package replaytest replays a recording of a manager in virtual time, in tests.
//
//	func TestTheIncidentDoesNotHappenAgain(t *testing.T) {
//		replaytest.DoesNotHappen(t, "testdata/incident.recording", setup, incident)
//	}
package replaytest

import (
	"testing"
	"testing/synctest"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
)

// Replay replays a recording in virtual time, and returns what was decided otherwise. It fails the test if the recording
// cannot be replayed. setup may be called in a time of the recording. What it creates must not start goroutines.
func Replay(t *testing.T, of *recording.Recording, setup controller.Setup) *controller.Replayed {
	t.Helper()
	var made *controller.Replayed
	var err error
	inBubble(t, func(t *testing.T, wait func()) { made, err = controller.Replay(t.Context(), of, setup, wait) })
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// inBubble calls a function in virtual time.
func inBubble(t *testing.T, run func(t *testing.T, wait func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(t, synctest.Wait) })
}
