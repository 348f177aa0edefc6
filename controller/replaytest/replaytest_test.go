package replaytest_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/replaytest"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestAReplayDecidesAsTheRecordingEachTime(t *testing.T) {
	recorded := open(t, record(t, 400))
	replays := 100
	if raceDetector {
		replays = 10
	}
	for range replays {
		replayed := replaytest.Replay(t, recorded, stable())
		if replayed.Attempts < 300 {
			t.Fatalf("only %d attempts were compared", replayed.Attempts)
		}
		for _, difference := range replayed.Differences {
			t.Errorf("%s %s: %v", difference.Object, difference.ID, difference.Lines)
		}
		if t.Failed() {
			return
		}
	}
}

func TestAReplayOfAChangedReconcilerShowsEachDifference(t *testing.T) {
	recorded := open(t, record(t, 100))
	for name, test := range map[string]struct {
		of   variant
		want []string // lines of some attempt, in this order
	}{
		"another value":         {variant{horse: "?"}, []string{"PUT /api/v1/namespaces/default/secrets/hero-", "  - metadata.labels.horse: \"", "  + metadata.labels.horse: \""}},
		"another field":         {variant{horse: "!", label: "steed"}, []string{"  - metadata.labels.horse: \"", "  + metadata.labels.steed: \""}},
		"a further field":       {variant{horse: "!", extraData: "x"}, []string{"PUT /api/v1/namespaces/default/secrets/hero-", "  + data.extra: \""}},
		"a list read otherwise": {variant{horse: "!", seen: func(secrets int) int { return secrets / 2 }}, []string{"PATCH /api/v1/namespaces/default/configmaps/hero-", "  - metadata.annotations.seen: \"", "  + metadata.annotations.seen: \""}},
		"another wait":          {variant{horse: "!", again: time.Second}, []string{"- another attempt after ", "+ another attempt after "}},
		"a failure":             {variant{horse: "!", fails: true}, []string{"- POST /api/v1/namespaces/default/secrets", "- succeeded", "+ failed: seeded"}},
		"a panic":               {variant{horse: "!", panics: true}, []string{"- succeeded", "+ panicked"}},
		"no write":              {variant{horse: "!", neverWrites: true}, []string{"- PATCH /api/v1/namespaces/default/configmaps/hero-"}},
		"a deletion":            {variant{horse: "!", deletes: true}, []string{"+ DELETE /api/v1/namespaces/default/configmaps/hero-"}},
		"no failure":            {variant{horse: "!", forgivesAll: true}, []string{"- failed: " + errUnlucky.Error(), "+ succeeded"}},
		"a terminal error":      {variant{horse: "!", givesUp: true}, []string{"- another attempt after the failure", "+ no attempt after the failure"}},
		"a further read":        {variant{horse: "!", readsLive: true}, []string{"+ GET /api/v1/namespaces/default/configmaps/hero-"}},
	} {
		t.Run(name, func(t *testing.T) {
			replayed := replaytest.Replay(t, recorded, stableAs(test.of))
			for _, difference := range replayed.Differences {
				wanted := test.want
				for _, line := range difference.Lines {
					if len(wanted) > 0 && strings.HasPrefix(line, wanted[0]) {
						wanted = wanted[1:]
					}
				}
				if len(wanted) == 0 {
					return
				}
			}
			t.Errorf("none of the %d differences has the lines %q; the first is %+v", len(replayed.Differences), test.want, replayed.Differences[:min(1, len(replayed.Differences))])
		})
	}
}

// shadow runs a version of the controller beside one that is recorded, and returns its differences and the number of attempts.
func shadow(t *testing.T, of variant) (differences []controller.Difference, attempts int) {
	t.Helper()
	dir := t.TempDir()
	started := make(chan struct{})
	group := lifecycle.New(t.Context())
	group.Go("recorded", func(context.Context) error {
		recordInto(t, recording.Options{Dir: dir}, 100, started)
		return nil
	})
	<-started
	batches := make(chan recording.Batch)
	follow, cancel := context.WithCancel(t.Context())
	group.Go("follow", func(context.Context) error {
		defer close(batches)
		return recording.Follow(follow, dir, func(batch recording.Batch) error {
			batches <- batch
			return nil
		})
	})
	group.Go("enough", func(context.Context) error {
		<-time.After(5 * time.Second) // The recording has ended long before.
		cancel()
		return nil
	})
	synctest.Test(t, func(t *testing.T) {
		if err := controller.Shadow(t.Context(), batches, stableAs(of), synctest.Wait, func(_ controller.Made, difference *controller.Difference) {
			attempts++
			if difference != nil {
				differences = append(differences, *difference)
			}
		}); err != nil {
			t.Error(err)
		}
	})
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	return differences, attempts
}

func TestAShadowOfTheSameVersionIsSilentAndOfAnotherOneExact(t *testing.T) {
	t.Parallel()
	if differences, attempts := shadow(t, variant{horse: "!"}); len(differences) > 0 || attempts < 50 {
		t.Errorf("%d attempts, and the differences %+v", attempts, differences)
	}
	differences, _ := shadow(t, variant{horse: "!", extraData: "x"})
	for _, difference := range differences {
		if len(difference.Lines) != 2 || !strings.HasPrefix(difference.Lines[1], "  + data.extra: ") {
			t.Errorf("%s: %q", difference.Object, difference.Lines)
		}
	}
	if len(differences) == 0 {
		t.Error("no difference was found")
	}
}

func TestAnIncidentIsShrunkToWhatItNeeds(t *testing.T) {
	recorded := open(t, record(t, 300))
	var unlucky types.NamespacedName
	for _, made := range replaytest.Replay(t, recorded, stable()).Made {
		if errors.Is(made.Err, errUnlucky) {
			unlucky = made.Object
		}
	}
	incident, err := replaytest.FindIncident(recorded, "stable", unlucky)
	if err != nil {
		t.Fatal(err)
	}
	shrunk, err := replaytest.Shrink(t, recorded, stable(), incident)
	if err != nil {
		t.Fatal(err)
	}
	objects, attempts := 0, 0
	for _, record := range shrunk.Records {
		if record.Object != nil {
			objects++
		}
		if record.Start != nil {
			attempts++
		}
	}
	if objects != 1 || attempts != 1 {
		t.Errorf("%d versions of objects and %d attempts are left; one of each suffices", objects, attempts)
	}
	path := t.TempDir() + "/incident.recording"
	if err := shrunk.Save(path); err != nil {
		t.Fatal(err)
	}
	mended := func(config *rest.Config, options controller.Options) (*controller.Manager, error) {
		manager, err := controller.NewManager(config, scheme.Scheme, options)
		if err != nil {
			return nil, err
		}
		return manager, manager.Add("stable", func(context.Context, operators.Request) (time.Duration, error) { return 0, nil },
			controller.For(&corev1.ConfigMap{}), controller.Owns(&corev1.Secret{}))
	}
	replaytest.DoesNotHappen(t, path, mended, incident)
}

func TestNoValueOfASecretIsInARecording(t *testing.T) {
	recorded := open(t, record(t, 100))
	secrets := 0
	for _, record := range recorded.Records {
		shown := fmt.Sprintf("%+v", record)
		if record.Object != nil {
			shown += string(record.Object.Body)
			if record.Object.Key.Kind == "Secret" {
				secrets++
			}
		}
		if record.Exchange != nil {
			shown += string(record.Exchange.Body) + string(record.Exchange.Answer)
		}
		for _, canary := range []string{"canary-in-a-secret", base64.StdEncoding.EncodeToString([]byte("canary-in-a-secret"))} {
			if strings.Contains(shown, canary) {
				t.Fatalf("a record has a value of a Secret: %s", shown)
			}
		}
	}
	if secrets == 0 {
		t.Error("the recording has no Secret")
	}
}
