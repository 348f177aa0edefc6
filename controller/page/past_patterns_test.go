package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// wrestling is a recording of a controller that writes the ConfigMap child for pegasus.
type wrestling struct {
	t       *testing.T
	records []recording.Record
	now     time.Duration
	version int
	isProto bool
}

func (w *wrestling) add(record recording.Record) {
	record.At = start.Add(w.now).UnixNano()
	w.records = append(w.records, record)
}

// shows makes the cache show another version of the child, and returns its event.
func (w *wrestling) shows(horse string, by ...metav1.ManagedFieldsEntry) streams.Cause {
	w.t.Helper()
	w.version++
	of := streams.Cause{Key: keyOf("child"), Type: streams.Applied, ResourceVersion: fmt.Sprint(w.version)}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "stable", Name: "child", ResourceVersion: of.ResourceVersion, ManagedFields: by}, Data: map[string]string{"horse": horse, "other": "x"}}
	body, err := json.Marshal(object)
	if w.isProto {
		body, err = object.Marshal()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.add(recording.Record{Object: &recording.Object{Key: of.Key, ResourceVersion: of.ResourceVersion, Body: body, IsProto: w.isProto}})
	change := streams.Updated
	if w.version == 1 {
		change = streams.Added
	}
	w.add(recording.Record{Events: []recording.Event{{Type: of.Type, Key: of.Key, ResourceVersion: of.ResourceVersion, HasObject: true, Received: start.Add(w.now).UnixNano(), Change: change}}})
	return of
}

// attempts makes an attempt, which writes the next version of the child.
func (w *wrestling) attempts(stalled *recording.Stalled, causes ...streams.Cause) {
	w.t.Helper()
	request := operators.Request{Controller: "stables", NamespacedName: keyOf("pegasus").NamespacedName, Causes: causes}
	number := uint64(len(w.records)) + 1
	w.add(recording.Record{Start: &recording.Start{Attempt: number, ID: fmt.Sprint(number), Request: request, Stalled: stalled}})
	answer := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"stable","name":"child","resourceVersion":"%d"}}`, w.version+1)
	w.add(recording.Record{Exchange: &recording.Exchange{Attempt: number, Method: http.MethodPatch, URL: "/api/v1/namespaces/stable/configmaps/child", Sent: start.Add(w.now).UnixNano(), Code: 200, Answer: []byte(answer)}})
	w.add(recording.Record{End: &recording.End{Attempt: number}})
}

// fights makes a round a second in which another client changes the child, and the controller changes it back.
func (w *wrestling) fights(rounds int) {
	w.t.Helper()
	for range rounds {
		foreign := w.shows("arion",
			metav1.ManagedFieldsEntry{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate}, metav1.ManagedFieldsEntry{Manager: "stables", Operation: metav1.ManagedFieldsOperationApply})
		w.attempts(nil, foreign)
		w.shows("pegasus")
		w.now += time.Second
	}
}

// at returns the patterns that the recording has at a time.
func (w *wrestling) at(shown *Past, after time.Duration) []introspection.Pattern {
	w.t.Helper()
	state := ask[pastState](w.t, shown, fmt.Sprintf("/debug/past/state?at=%d", start.Add(after).UnixMilli()))
	if len(state.Controllers) != 1 || state.Controllers[0].Patterns == nil {
		w.t.Fatalf("after %v the state is %+v", after, state)
	}
	return state.Controllers[0].Patterns
}

func TestARecordingNamesAFightWhileItGoesOnAndNotAfterwards(t *testing.T) {
	for _, isProto := range []bool{false, true} {
		w := &wrestling{t: t, isProto: isProto}
		w.shows("pegasus")
		w.fights(8)
		w.now += 5 * time.Minute
		w.shows("pegasus") // The recording goes on in peace.
		shown := NewPast(recorded(t, w.records...), scheme.Scheme, false)
		want := introspection.Pattern{Key: "stable/pegasus", Pattern: "fight", Written: "ConfigMap stable/child", Fields: []string{"data.horse"}, Managers: []string{"kubectl"}}
		for _, test := range []struct {
			after  time.Duration
			rounds int
		}{{0, 0}, {3900 * time.Millisecond, 0}, {4 * time.Second, 5}, {5500 * time.Millisecond, 6}, {7 * time.Second, 8}, {67 * time.Second, 8}, {67*time.Second + time.Millisecond, 0}, {5 * time.Minute, 0}, {5500 * time.Millisecond, 6}} {
			got := w.at(shown, test.after)
			if test.rounds == 0 {
				if len(got) != 0 {
					t.Errorf("after %v it names %+v", test.after, got)
				}
				continue
			}
			if len(got) != 1 || got[0].Rounds != test.rounds || got[0].PerSecond != float64(test.rounds)/float64(test.rounds-1) {
				t.Fatalf("after %v it names %+v, want %d rounds", test.after, got, test.rounds)
			}
			if got := got[0]; got.Key != want.Key || got.Pattern != want.Pattern || got.Written != want.Written || !slices.Equal(got.Fields, want.Fields) || !slices.Equal(got.Managers, want.Managers) {
				t.Errorf("after %v it names %+v, want %+v", test.after, got, want)
			}
		}
	}
}

func TestARecordingNamesAHotLoopAndNoUsualWork(t *testing.T) {
	w := &wrestling{t: t}
	cause := w.shows("pegasus")
	for range 60 {
		w.attempts(nil, cause)
		cause = w.shows(fmt.Sprint("pegasus ", w.version))
		w.now += 20 * time.Millisecond
	}
	shown := NewPast(recorded(t, w.records...), scheme.Scheme, false)
	if got := w.at(shown, 999*time.Millisecond); len(got) != 0 {
		t.Errorf("after 49 attempts that follow from an own write it names %+v", got)
	}
	if got := w.at(shown, time.Second); len(got) != 1 || got[0].Rounds != 50 {
		t.Errorf("after the 50th one it names %+v", got)
	}
	if got := w.at(shown, w.now); len(got) != 1 || got[0].Pattern != "hot_loop" || got[0].Written != "ConfigMap stable/child" || got[0].Rounds != 59 {
		t.Errorf("at the end it names %+v", got)
	}
	if got := w.at(shown, w.now+2*time.Minute); len(got) != 0 {
		t.Errorf("two minutes later it names %+v", got)
	}

	// A user changes one field again and again, and the controller another one.
	usual := &wrestling{t: t}
	usual.shows("pegasus")
	for i := range 20 {
		usual.attempts(nil, usual.shows(fmt.Sprint("horse ", i)))
		usual.now += 50 * time.Millisecond
	}
	if got := usual.at(NewPast(recorded(t, usual.records...), scheme.Scheme, false), usual.now); len(got) != 0 {
		t.Errorf("of usual work it names %+v", got)
	}
}

// A pattern is slowed down to a round in half a minute. When its first rounds have left the ring, only the operator knows it.
func TestARecordingNamesAPatternWhoseBeginningHasLeftTheRing(t *testing.T) {
	w := &wrestling{t: t}
	w.shows("pegasus")
	last := time.Duration(0)
	for i := range 4 {
		stalled := &recording.Stalled{
			Reason: "Fight", Left: 40 * time.Second, Pattern: "fight", Written: keyOf("child"), Fields: []string{"data.horse"}, Rounds: 100 + i,
			Since: start.Add(-time.Hour).UnixNano(), Last: start.Add(w.now - 30*time.Second).UnixNano(),
		}
		foreign := w.shows("arion")
		w.attempts(stalled, foreign)
		w.shows("pegasus")
		last, w.now = w.now, w.now+30*time.Second
	}
	shown := NewPast(recorded(t, w.records...), scheme.Scheme, false)
	for after, rounds := range map[time.Duration]int{0: 100, 29 * time.Second: 100, 31 * time.Second: 101, last: 103, last + 40*time.Second: 103} {
		if got := w.at(shown, after); len(got) != 1 || got[0].Rounds != rounds || got[0].Fields[0] != "data.horse" || got[0].Written != "ConfigMap stable/child" {
			t.Errorf("after %v it names %+v, want %d rounds", after, got, rounds)
		}
	}
	if got := w.at(shown, last+41*time.Second); len(got) != 0 {
		t.Errorf("without a further round it names %+v", got)
	}
	// The operator says at the next attempt that the pattern has ended.
	w.attempts(nil)
	shown = NewPast(recorded(t, w.records...), scheme.Scheme, false)
	if got := w.at(shown, w.now); len(got) != 0 {
		t.Errorf("when the operator has no pattern it names %+v", got)
	}
}
