package beside

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func get(t *testing.T, url, host string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		request.Host = host
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func TestThePageShowsBothSidesLive(t *testing.T) {
	sides := twoSides()
	page, err := newPage(t.Context(), sides)
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("page", page.run)
	if index := get(t, page.URL(), ""); index.StatusCode != http.StatusOK || index.Header.Get("Content-Security-Policy") != policy {
		t.Errorf("the page answers %s with %v", index.Status, index.Header)
	}
	if foreign := get(t, page.URL(), "evil.example"); foreign.StatusCode != http.StatusForbidden {
		t.Errorf("another host gets %s", foreign.Status)
	}
	lines := bufio.NewScanner(get(t, page.URL()+"events", "").Body)
	next := func() (shown snapshot) {
		t.Helper()
		for lines.Scan() {
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				if err := json.Unmarshal([]byte(data), &shown); err != nil {
					t.Fatal(err)
				}
				return shown
			}
		}
		t.Fatal("the stream has ended")
		return shown
	}
	if first := next(); len(first.Sides) != 2 || first.Sides[1].Name != "quarkus" || len(first.Sides[0].Done) != 0 {
		t.Errorf("at first it shows %+v", first)
	}
	sides[0].see(readyHero("shero-1"))
	for shown := next(); ; shown = next() {
		if len(shown.Sides[1].Done) != 0 {
			t.Fatalf("the other side shows %+v", shown.Sides[1])
		}
		if finished := shown.Sides[0].Done; len(finished) == 1 {
			if finished[0].Object != "shero-1" || !finished[0].Created || shown.Sides[0].Ready != 1 {
				t.Errorf("it shows %+v", shown.Sides[0])
			}
			break
		}
	}
	if after := next(); len(after.Sides[0].Done) != 0 {
		t.Errorf("it shows a change twice: %+v", after)
	}
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func TestThePageForgetsOldChanges(t *testing.T) {
	s := newSide(&contender.Program{}, os.DevNull)
	for range 2 * maxRecent {
		s.wanted["shero-1"] = want{1, time.Now(), false}
		s.see(readyHero("shero-1"))
	}
	if later, all := s.since(0); len(later) != maxRecent || all != 2*maxRecent {
		t.Errorf("it keeps %d of %d", len(later), all)
	}
	if later, _ := s.since(2*maxRecent - 3); len(later) != 3 {
		t.Errorf("after all but three there are %d", len(later))
	}
}

// twoSides returns sides with an object that was created.
func twoSides() (sides []*side) {
	for _, name := range []string{"bellerophon", "quarkus"} {
		made := newSide(&contender.Program{Contender: contender.Contender{Name: name}}, os.DevNull)
		made.usage = func() (scenario.Usage, error) { return scenario.Usage{}, nil }
		made.wanted["shero-1"] = want{1, time.Now(), true}
		sides = append(sides, made)
	}
	return sides
}

func readyHero(name string) *v1.BellerophonSimple {
	return &v1.BellerophonSimple{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
		Status:     v1.BellerophonSimpleStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{{Type: v1.ConditionReady, Status: metav1.ConditionTrue}}},
	}
}
