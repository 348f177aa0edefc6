package porttest

import (
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/compat"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/replaytest"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Replay takes a load through the operator on Bellerophon, with a recording, and replays that. It fails the test if an
// attempt of the replay decides otherwise than the operator did. It returns what the replay made.
// load creates the load and waits for its end. options and setUp are what Main gets.
func (f *Field) Replay(load func(), options ctrl.Options, setUp func(mgr ctrl.Manager) error) *controller.Replayed {
	f.T.Helper()
	folder := f.T.TempDir()
	f.run(Bellerophon, load, recordingVariable+"="+folder)
	of, err := recording.Open(folder)
	f.Must(err)
	replayed := replaytest.Replay(f.T, of, compat.Setup(func(config *rest.Config, ours controller.Options) (*compat.Manager, error) {
		mgr, err := compat.NewManager(config, inNamespace(options, f.Namespace), ours)
		if err != nil {
			return nil, err
		}
		return mgr, setUp(mgr)
	}))
	sent := 0
	for _, made := range replayed.Made {
		sent += len(made.Requests)
	}
	f.T.Logf("%d attempts of %d records were replayed, with %d requests", replayed.Attempts, len(of.Records), sent)
	if sent == 0 {
		f.T.Error("the replay sent nothing, so that it compares nothing")
	}
	for i, difference := range replayed.Differences {
		if i == 3 {
			f.T.Errorf("and %d more", len(replayed.Differences)-i)
			break
		}
		f.T.Errorf("an attempt differs: %+v", difference)
	}
	return replayed
}
