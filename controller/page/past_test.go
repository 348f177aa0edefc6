package page

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

var start = time.UnixMilli(1_800_000_000_000)

// recorded writes records into a recording, and returns its folder.
func recorded(t testing.TB, records ...recording.Record) string {
	t.Helper()
	dir := t.TempDir()
	writer, err := recording.NewWriter(recording.Options{Dir: dir, Version: "v1", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records {
		writer.Put(recording.Pending{Record: record}, 1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := writer.Run(ctx, func() map[string]schema.GroupKind { return map[string]schema.GroupKind{"stables": {Kind: "ConfigMap"}} }); err != nil {
		t.Fatal(err)
	}
	return dir
}

func keyOf(name string) streams.Key {
	return streams.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, NamespacedName: types.NamespacedName{Namespace: "stable", Name: name}}
}

func seen(after time.Duration, name, version string, of streams.EventType, change streams.ChangeType) recording.Record {
	at := start.Add(after).UnixNano()
	return recording.Record{At: at, Events: []recording.Event{{Type: of, Key: keyOf(name), ResourceVersion: version, HasObject: true, Received: at, Change: change}}}
}

func brought(t testing.TB, after time.Duration, object *corev1.ConfigMap) recording.Record {
	t.Helper()
	encoded, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return recording.Record{At: start.Add(after).UnixNano(), Object: &recording.Object{Key: keyOf(object.Name), ResourceVersion: object.ResourceVersion, Body: encoded}}
}

func ask[T any](t *testing.T, p *Past, path string) (answer T) {
	t.Helper()
	recorder := httptest.NewRecorder()
	p.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if recorder.Code != http.StatusOK || json.Unmarshal(recorder.Body.Bytes(), &answer) != nil {
		t.Fatalf("%s is %d %s", path, recorder.Code, recorder.Body)
	}
	return answer
}

// Many items have one millisecond, and attempts end long after they began.
func TestThePagesOfThePastHaveEachItemOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(27, 5))
	var records []recording.Record
	want := map[string]int{}
	for i := range 3000 {
		after := time.Duration(random.IntN(40)) * time.Millisecond
		switch name := fmt.Sprint("pegasus-", i); i % 3 {
		case 0:
			records = append(records, seen(after, name, fmt.Sprint(i), streams.Applied, streams.Updated))
			want["event "+name]++
			want["change "+name]++
		case 1:
			records = append(records, recording.Record{At: start.Add(after).UnixNano(), Removed: []streams.Key{keyOf(name)}})
			want["change "+name]++
		default:
			request := operators.Request{Controller: "stables", NamespacedName: keyOf(name).NamespacedName}
			records = append(records, recording.Record{At: start.Add(-after).UnixNano(), Start: &recording.Start{Attempt: uint64(i), ID: name, Request: request}},
				recording.Record{At: start.Add(after).UnixNano(), End: &recording.End{Attempt: uint64(i), Err: "the horse refuses"}})
			want["attempt "+name]++
		}
	}
	shown := NewPast(recorded(t, records...), scheme.Scheme, false)
	for _, limit := range []int{1000, 7, 61, 5000} {
		got := map[string]int{}
		for after, pages := "", 0; pages == 0 || after != ""; pages++ {
			page := ask[pastItems](t, shown, fmt.Sprintf("/debug/past/items?from=%d&to=%d&limit=%d&after=%s", start.UnixMilli(), start.UnixMilli()+100, limit, after))
			if some := len(page.Events) + len(page.Changes) + len(page.Attempts); some > limit || some == 0 {
				t.Fatalf("a page of at most %d has %d items", limit, some)
			}
			for _, of := range page.Events {
				got["event "+of.Name]++
			}
			for _, of := range page.Changes {
				got["change "+of.Name]++
			}
			for _, of := range page.Attempts {
				got["attempt "+of.Name]++
				if of.Outcome != "error" || of.Error != "the horse refuses" || of.ID != of.Name {
					t.Errorf("an attempt is %+v", of)
				}
			}
			if after = page.Next; limit == 7 && pages == 20 {
				after = "" // The scan of the others is the same.
			}
		}
		for name, times := range got {
			if times != want[name] {
				t.Errorf("with pages of %d, %s is shown %d times", limit, name, times)
			}
		}
		if limit != 7 && len(got) != len(want) {
			t.Errorf("with pages of %d, %d items are shown, want %d", limit, len(got), len(want))
		}
	}
}

func TestAWorldOfThePastHasTheObjectsOfItsTime(t *testing.T) {
	horse := func(name, version string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "stable", Name: name, ResourceVersion: version, UID: types.UID(name)}}
	}
	foal := horse("foal", "3")
	foal.OwnerReferences = []metav1.OwnerReference{{UID: "mare"}}
	mare := horse("mare", "1")
	mare.OwnerReferences = []metav1.OwnerReference{{UID: "foal"}} // A cycle must end.
	request := operators.Request{Controller: "stables", NamespacedName: keyOf("mare").NamespacedName}
	records := []recording.Record{
		brought(t, 0, mare), seen(0, "mare", "1", streams.Listed, streams.Added), brought(t, 0, horse("old", "1")), seen(0, "old", "1", streams.Listed, streams.Added),
		brought(t, time.Second, foal), seen(time.Second, "foal", "3", streams.Applied, streams.Added),
		brought(t, time.Second, horse("ahead", "9")), // The debounce holds it.
		{At: start.Add(2 * time.Second).UnixNano(), Start: &recording.Start{Attempt: 1, ID: "a", Request: request}},
		{At: start.Add(3 * time.Second).UnixNano(), End: &recording.End{Attempt: 1, Err: "no hay", Terminal: true}},
		{At: start.Add(4 * time.Second).UnixNano(), Start: &recording.Start{Attempt: 2, ID: "b", Request: request}},
		seen(5*time.Second, "foal", "4", streams.Deleted, streams.Removed),
		{At: start.Add(5 * time.Second).UnixNano(), Removed: []streams.Key{keyOf("old")}},
	}
	shown := NewPast(recorded(t, records...), scheme.Scheme, false)
	at := func(after time.Duration) int64 { return start.Add(after).UnixMilli() }
	names := func(after time.Duration) (found []string) {
		answer := ask[struct{ Objects []struct{ Name string } }](t, shown, fmt.Sprintf("/debug/past/tree?at=%d", at(after)))
		for _, of := range answer.Objects {
			found = append(found, of.Name)
		}
		return found
	}
	for after, want := range map[time.Duration][]string{0: {"mare", "old"}, 1500 * time.Millisecond: {"foal", "mare", "old"}, 6 * time.Second: {"mare"}} {
		if got := names(after); !slices.Equal(got, want) {
			t.Errorf("after %v it has %v, want %v", after, got, want)
		}
	}
	type node struct {
		Name     string
		Children []node
		LeftOut  bool
	}
	tree := ask[node](t, shown, fmt.Sprintf("/debug/past/tree?at=%d&object=configmap/mare&namespace=stable", at(1500*time.Millisecond)))
	if len(tree.Children) != 1 || tree.Children[0].Name != "foal" || !tree.Children[0].LeftOut {
		t.Errorf("the tree is %+v", tree)
	}
	for after, want := range map[time.Duration]string{
		2500 * time.Millisecond: `{"name":"stables","kind":"ConfigMap","attempts":0,"errors":0,"inFlight":[{"key":"stable/mare","since":"` + start.Add(2*time.Second).UTC().Format(time.RFC3339) + `"}],"running":1,"backoffs":[],"failing":0,"patterns":[]}`,
		3500 * time.Millisecond: `{"name":"stables","kind":"ConfigMap","attempts":1,"errors":1,"inFlight":[],"running":0,"backoffs":[{"key":"stable/mare","failures":1,"reason":"no hay","terminal":true}],"failing":1,"patterns":[]}`,
	} {
		if got := ask[struct{ Controllers []json.RawMessage }](t, shown, fmt.Sprintf("/debug/past/state?at=%d", at(after))); string(got.Controllers[0]) != want {
			t.Errorf("after %v the controller is %s, want %s", after, got.Controllers[0], want)
		}
	}
	span := ask[extent](t, shown, "/debug/past/span")
	if span.From != at(0) || span.To != at(5*time.Second) || span.GoesOn || span.Version != "v1" {
		t.Errorf("the span is %+v", span)
	}
}

func TestAQuestionWaitsForItsTurnAndNotForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := NewPast(t.TempDir(), scheme.Scheme, true)
		shown.turn <- struct{}{} // A question that reads a disk that hangs.
		began := time.Now()
		for name, test := range map[string]struct {
			leaves, takes time.Duration
			code          int
		}{
			"one who leaves": {time.Second, time.Second, http.StatusOK}, "one who waits": {time.Hour, pastPatience, http.StatusServiceUnavailable},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), test.leaves)
			began, recorder := time.Now(), httptest.NewRecorder()
			shown.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, "/debug/past/span", nil))
			cancel()
			if took := time.Since(began); took != test.takes || recorder.Code != test.code {
				t.Errorf("%s gets %d %s after %v", name, recorder.Code, recorder.Body, took)
			}
		}
		<-shown.turn
		recorder := httptest.NewRecorder()
		shown.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/past/span", nil))
		if recorder.Code != http.StatusNotFound || !strings.Contains(recorder.Body.String(), "nothing is recorded so far") || time.Since(began) > 2*time.Minute {
			t.Errorf("afterwards the answer is %d %s", recorder.Code, recorder.Body)
		}
		for _, method := range []string{http.MethodPost, http.MethodHead, http.MethodDelete} {
			recorder := httptest.NewRecorder()
			if shown.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, "/debug/past/span", nil)); recorder.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s: %d", method, recorder.Code)
			}
		}
	})
}

func TestThePageWithoutAManagerHasFilesAndNoEvents(t *testing.T) {
	shown, err := NewWithoutManager()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/page/": 200, "/page/past.js": 200, "/page/events": 404} {
		recorder := httptest.NewRecorder()
		if shown.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)); recorder.Code != want {
			t.Errorf("%s: %d", path, recorder.Code)
		}
	}
}
