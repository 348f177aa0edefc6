package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/introspection"
	recorded "github.com/bellerophon-io/bellerophon/controller/page"
	"github.com/bellerophon-io/bellerophon/internal/incidents"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/chromedp/chromedp/kb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// named is how long the page may take to name the cause of an incident.
const named = 10 * time.Second

func TestThePageNamesTheCauseOfAnIncidentWithinTenSeconds(t *testing.T) {
	config := clustertest.Shared(t).AdminConfig()
	for _, incident := range []struct {
		name     string
		of       incidents.Riding
		through  func(*rest.Config) *rest.Config
		prepare  func(i *incidents.Incident) // after the object was created
		state    string                      // what the part of the state says, as a regular expression
		selected string                      // the same of why of the object
	}{
		{
			// The Deployment controller writes its status meanwhile, so the state may not call it a hot loop.
			name: "a webhook that undoes a field", prepare: (*incidents.Incident).UndoImages,
			selected: `\d+ of the last \d+ attempts came from an own write of Deployment\.apps pegasus, and wrote it again\. .*something changes what is written: a webhook.*because\s*Deployment\.apps pegasus@\d+ was updated: [^\n]*, written by riders [0-9a-f]{16}.*wrote\s*(apply|patch) Deployment\.apps pegasus@\d+: [^\n]*spec\.template`,
		},
		{
			name: "another client that undoes a field", prepare: undoByClient(t),
			state:    `Fight over Deployment\.apps \S+/pegasus, for \S+/pegasus of riders: \d+ rounds.*; fields spec\.template`,
			selected: `\d+ of the last \d+ attempts changed \S*spec\.template\.spec\.containers\S* of Deployment\.apps pegasus back after another client had changed it\.|wrote\s*apply Deployment\.apps pegasus@\d+: [^\n]*spec\.template\.spec\.containers`,
		},
		{
			name: "a hot loop", of: incidents.Riding{Counts: true},
			state:    `Hot loop over ConfigMap \S+/pegasus, for \S+/pegasus of riders: \d+ rounds, [\d.]+ a second`,
			selected: `\d+ of the last \d+ attempts came from an own write of ConfigMap pegasus, and wrote it again\. .*because\s*ConfigMap pegasus@\d+ was updated: data\.count, written by riders [0-9a-f]{16}.*wrote\s*patch ConfigMap pegasus@\d+: data\.count`,
		},
		{
			name: "an API server that stalls", through: func(config *rest.Config) *rest.Config { return incidents.Stalls(t, config) },
			state:    `\S+/pegasus\s*riders\s*\d+\s*its timeout`, // in the failing keys
			selected: `\d+ of the last \d+ attempts? had no answer to PATCH /apis/apps/v1/namespaces/\S+/deployments/pegasus\..*asked\s*PATCH /apis/apps/v1/namespaces/\S+/deployments/pegasus: no answer after 2\.0 s.*error\s*[^\n]*timed out`,
		},
	} {
		t.Run(incident.name, func(t *testing.T) {
			through := config
			if incident.through != nil {
				through = incident.through(config)
			}
			i := incidents.New(t, incident.of, through, clustertest.Namespace(t))
			openURL(t, i.Metrics+"/page/", func(o *opened) {
				o.until("the connection", `document.getElementById("connection").textContent === "connected"`)
				i.Begin()
				if incident.prepare != nil {
					incident.prepare(i)
				}
				began := time.Now()
				o.names(began, incident.state, `document.getElementById("failing").textContent + "\n" + document.getElementById("patterns").textContent`)
				// Why of the object is chosen as a person does, and follows the attempts.
				eval[any](o, `document.getElementById("text").value = "pegasus", document.getElementById("search").requestSubmit()`)
				o.until("the object", `(() => {
					const found = document.querySelector("#tree [aria-level='1'] .name");
					found?.click();
					return found;
				})()`)
				o.names(began, incident.selected, `document.getElementById("reasons").innerText`)
				o.checkHarmless()
			})
			if strings.Contains(incident.state, "rounds") {
				showsTheRecording(t, i, incident.state)
			}
		})
	}
}

// showsTheRecording ends an incident with a pattern, and looks at its recording: at its end, at its beginning, when the operator said
// what it had found, and two minutes after the end.
func showsTheRecording(t *testing.T, i *incidents.Incident, state string) {
	t.Helper()
	var live introspection.State
	answer, err := http.Get(i.Metrics + "/debug/manager")
	if err != nil {
		t.Fatal(err)
	}
	err = json.NewDecoder(answer.Body).Decode(&live)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	i.Stop()
	const part = `document.getElementById("patterns").textContent`
	openURL(t, serveRecording(t, i.Dir), func(o *opened) {
		o.names(time.Now(), state, part)
		o.reach("#slider")
		o.press(kb.Home)
		o.names(time.Now(), `No fight and no hot loop\.`, part)
		o.press(kb.End)
		o.names(time.Now(), state, part)
		o.checkHarmless()
	})
	patternsAt := func(at time.Time) []introspection.Pattern {
		answer := httptest.NewRecorder()
		recorded.NewPast(i.Dir, scheme.Scheme, false).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("/debug/past/state?at=%d", at.UnixMilli()), nil))
		var past introspection.State
		if json.Unmarshal(answer.Body.Bytes(), &past) != nil || len(past.Controllers) != 1 {
			t.Fatalf("the recording answers %d %s", answer.Code, answer.Body)
		}
		return past.Controllers[0].Patterns
	}
	if got := patternsAt(live.Time.Add(2 * time.Minute)); len(got) != 0 {
		t.Errorf("two minutes after its end the recording has %+v", got)
	}
	got, want := patternsAt(live.Time), live.Controllers[0].Patterns
	// An attempt has ended before the history has its result: on a busy machine, the live state is late. One attempt may have
	// ended in the same millisecond.
	earlier := patternsAt(live.Time.Add(-time.Second))
	if len(got) != 1 || len(want) != 1 || want[0].Rounds > got[0].Rounds+1 || len(earlier) == 1 && want[0].Rounds < earlier[0].Rounds {
		t.Fatalf("the recording has %+v, and a second before %+v; want %+v", got, earlier, want)
	}
	if isFight := got[0].Pattern == "fight"; slices.Contains(got[0].Managers, "offender") != isFight || slices.Contains(got[0].Managers, "riders") {
		t.Errorf("the recording has %+v", got)
	}
	got[0].Managers = want[0].Managers // The cache keeps no managed fields, and the recording does.
	got[0].Rounds, got[0].PerSecond = want[0].Rounds, want[0].PerSecond
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the recording has %+v, want %+v", got, want)
	}
}

// names waits until a part of the page says something, for as long as the incident may last until then.
func (o *opened) names(began time.Time, says, part string) {
	o.t.Helper()
	wanted := regexp.MustCompile("(?s)" + says)
	for {
		shown := eval[string](o, part)
		if wanted.MatchString(shown) {
			o.t.Logf("after %v the page says %.200q", time.Since(began).Round(time.Millisecond), wanted.FindString(shown))
			return
		}
		if time.Since(began) > named {
			o.t.Log(eval[string](o, `fetch("../debug/why?object=configmaps/pegasus&namespace="+document.getElementById("failing").dataset.ns).then(r=>r.text())`))
			o.t.Fatalf("after %v the page does not say %s; it says:\n%s", named, says, shown)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// undoByClient returns a preparation whose client sets another image whenever the controller has set its own.
func undoByClient(t *testing.T) func(i *incidents.Incident) {
	return func(i *incidents.Incident) {
		group := lifecycle.New(context.WithoutCancel(t.Context()))
		deployments := i.Core.AppsV1().Deployments(i.Namespace)
		patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"rider","image":%q}]}}}}`, incidents.TheirImage)
		group.Go("offender", func(ctx context.Context) error {
			for ctx.Err() == nil {
				held, err := deployments.Get(ctx, "pegasus", metav1.GetOptions{})
				if err == nil && held.Spec.Template.Spec.Containers[0].Image == incidents.OurImage {
					_, _ = deployments.Patch(ctx, "pegasus", types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "offender"}) // It tries again.
				}
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
				}
			}
			return nil
		})
		t.Cleanup(func() {
			group.Stop()
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}
