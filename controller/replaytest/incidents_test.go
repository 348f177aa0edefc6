package replaytest_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/controller/replaytest"
	"github.com/bellerophon-io/bellerophon/internal/incidents"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// incident is a running controller on the real API server.
type incident struct {
	*incidents.Incident
	t *testing.T
}

func newIncident(t *testing.T, of incidents.Riding, through func(*rest.Config) *rest.Config) *incident {
	t.Helper()
	made := &incident{incidents.New(t, of, through(clustertest.Shared(t).AdminConfig()), clustertest.Namespace(t)), t}
	made.Begin()
	return made
}

// why asks the controller about the object.
func (i *incident) why() (attempts []history.Attempt) {
	i.t.Helper()
	query := url.Values{"object": {"configmaps/pegasus"}, "namespace": {i.Namespace}}
	response, err := http.Get(i.Metrics + "/debug/why?" + query.Encode())
	if err != nil {
		i.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer history.Answer
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		i.t.Fatal(err)
	}
	return answer.Controllers[0].Attempts
}

// until asks why until the answer names a cause, for at most ten seconds.
func (i *incident) until(what string, named func(attempt history.Attempt) bool) {
	i.t.Helper()
	began := time.Now()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		for _, attempt := range i.why() {
			if named(attempt) {
				i.t.Logf("why named the cause after %v", time.Since(began))
				return
			}
		}
		if time.Since(began) > 10*time.Second {
			i.t.Fatalf("after ten seconds, why does not name it: %s; it has %+v", what, i.why())
		}
		<-ticker.C
	}
}

// becomesATest turns the recording into a test that fails for the controller that was recorded, and passes for the mended
// one.
func (i *incident) becomesATest(blamed, mended incidents.Riding) {
	i.t.Helper()
	i.Stop()
	recorded := open(i.t, i.Dir)
	replayed := replaytest.Replay(i.t, recorded, blamed.Setup(i.Namespace))
	for _, difference := range replayed.Differences {
		i.t.Errorf("the replay differs: %+v", difference)
	}
	found, err := replaytest.FindIncident(recorded, "riders", types.NamespacedName{Namespace: i.Namespace, Name: "pegasus"})
	if err != nil {
		i.t.Fatal(err)
	}
	shrunk, err := replaytest.Shrink(i.t, recorded, blamed.Setup(i.Namespace), found)
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Logf("%v; %d of %d records are left", found, len(shrunk.Records), len(recorded.Records))
	path := filepath.Join(i.t.TempDir(), "incident.recording")
	if err := shrunk.Save(path); err != nil {
		i.t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 64<<10 {
		i.t.Errorf("the file of the incident is %v, %v", info, err)
	}
	again := open(i.t, path)
	if happens := replaytest.Happens(i.t, again, blamed.Setup(i.Namespace), found); happens == "" {
		i.t.Error("the test passes with the controller that is to blame")
	}
	replaytest.DoesNotHappen(i.t, path, mended.Setup(i.Namespace), found)
}

func same(config *rest.Config) *rest.Config { return config }

func TestAWebhookThatUndoesAFieldIsNamedAndBecomesATest(t *testing.T) {
	blamed := incidents.Riding{}
	i := newIncident(t, blamed, same)
	i.UndoImages()
	i.until("the image is written again and again, because of nothing but own writes", func(attempt history.Attempt) bool {
		return len(attempt.Causes) > 0 && len(attempt.Writes) > 0 && attempt.Causes[0].WrittenBy != "" && attempt.Causes[0].Kind == "Deployment.apps" && attempt.Writes[0].Kind == "Deployment.apps"
	})
	i.becomesATest(blamed, incidents.Riding{AcceptsOtherImages: true})
}

func TestAHotLoopIsNamedAndBecomesATest(t *testing.T) {
	blamed := incidents.Riding{Counts: true}
	i := newIncident(t, blamed, same)
	i.until("the attempt writes the object that caused it", func(attempt history.Attempt) bool {
		return len(attempt.Causes) > 0 && len(attempt.Writes) > 0 && attempt.Causes[0].WrittenBy != "" && attempt.Causes[0].Kind == "ConfigMap" && strings.HasPrefix(strings.Join(attempt.Causes[0].Fields, ","), "data")
	})
	i.becomesATest(blamed, incidents.Riding{})
}

func TestAnAPIServerThatStallsIsNamedAndBecomesATest(t *testing.T) {
	blamed := incidents.Riding{}
	i := newIncident(t, blamed, func(config *rest.Config) *rest.Config { return incidents.Stalls(t, config) })
	i.until("a request has no answer", func(attempt history.Attempt) bool {
		for _, call := range attempt.Calls {
			if call.Code == 0 && call.Method == http.MethodPatch && strings.Contains(call.Path, "/deployments/pegasus") && strings.Contains(attempt.Error, "timed out") {
				return true
			}
		}
		return false
	})
	i.becomesATest(blamed, incidents.Riding{WaitsForTheServer: true})
}
