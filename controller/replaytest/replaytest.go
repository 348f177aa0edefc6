// Package replaytest replays a recording of a manager in virtual time, in tests.
//
//	func TestTheIncidentDoesNotHappenAgain(t *testing.T) {
//		replaytest.Run(t, "testdata/incident.recording", setup)
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
	synctest.Test(t, func(t *testing.T) {
		var err error
		if made, err = controller.Replay(t.Context(), of, setup, synctest.Wait); err != nil {
			t.Fatal(err)
		}
	})
	return made
}
