package scenario

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"k8s.io/apimachinery/pkg/types"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }

func event(ms int, resource, name string, generation int64, version uint64) proxy.Event {
	return proxy.Event{At: at(ms), Type: "MODIFIED", Resource: resource, Namespace: "n", Name: name, Generation: generation, Version: version, Bytes: 10}
}

func write(ms int, resource, name string) proxy.Call {
	return proxy.Call{At: at(ms), End: at(ms + 1), Verb: "patch", Resource: resource, Namespace: "n", Name: name, Code: 200, In: 3, Out: 5}
}

func milliseconds(durations []time.Duration) []int {
	got := make([]int, len(durations))
	for i, d := range durations {
		got[i] = int(d.Milliseconds())
	}
	return got
}

func TestAReactionIsFromTheFirstEventOfAGenerationToTheObjectsNextWrite(t *testing.T) {
	record := proxy.Record{
		Events: []proxy.Event{
			event(10, "sheroes", "a", 1, 1),
			event(11, "sheroes", "a", 1, 2),    // a status update: no new generation
			event(12, "sheroes", "b", 1, 3),    // answered late
			event(20, "configmaps", "a", 9, 4), // another resource
			event(30, "sheroes", "a", 2, 5),
			event(31, "sheroes", "a", 3, 6), // two generations, one write
			event(40, "sheroes", "c", 1, 7), // never answered
			{At: at(41), Type: "DELETED", Resource: "sheroes", Namespace: "n", Name: "a", Generation: 4},
		},
		Calls: []proxy.Call{
			write(50, "configmaps", "b"), // calls are recorded in the order in which they end
			write(5, "configmaps", "a"),
			write(13, "configmaps", "a"),
			write(14, "services", "a"),
			write(36, "sheroes", "a"),
			write(37, "events", "c"),
			{At: at(45), Verb: "get", Resource: "sheroes", Namespace: "n", Name: "c", Code: 200},
		},
	}
	reactions, unanswered := reactionsIn(record, newGeneration("sheroes", began, nil))
	if got := milliseconds(reactions); !slices.Equal(got, []int{3, 6, 5, 38}) || unanswered != 1 {
		t.Errorf("reactions are %v ms and %d unanswered, want 3, 6, 5 and 38, and 1", got, unanswered)
	}
}

func TestAReactionCountsFromWhenTheChangeWasMeantToBeSent(t *testing.T) {
	record := proxy.Record{
		Events: []proxy.Event{event(10, "sheroes", "a", 1, 1), event(20, "sheroes", "a", 2, 2)},
		Calls:  []proxy.Call{write(25, "sheroes", "a")},
	}
	intended := map[change]time.Time{{types.NamespacedName{Namespace: "n", Name: "a"}, 2}: at(15)}
	reactions, unanswered := reactionsIn(record, newGeneration("sheroes", at(20), intended))
	if got := milliseconds(reactions); !slices.Equal(got, []int{10}) || unanswered != 0 {
		t.Errorf("reactions are %v ms and %d unanswered, want 10, measured from the intended time; the event before the window does not count", got, unanswered)
	}
}

func TestAReactionToDriftIsToTheVersionOfTheDrift(t *testing.T) {
	bookmark := proxy.Event{At: at(5), Type: "BOOKMARK", Resource: "configmaps", Version: 7}
	record := proxy.Record{
		Events: []proxy.Event{bookmark, event(10, "configmaps", "a", 0, 7), event(11, "configmaps", "a", 0, 7), event(12, "sheroes", "a", 0, 7), event(30, "configmaps", "a", 0, 8)},
		Calls:  []proxy.Call{write(25, "configmaps", "a")},
	}
	reactions, unanswered := reactionsIn(record, writtenVersions(map[uint64]string{7: "configmaps"}))
	if got := milliseconds(reactions); !slices.Equal(got, []int{15}) || unanswered != 0 {
		t.Errorf("reactions are %v ms and %d unanswered, want 15", got, unanswered)
	}
}

func TestTrafficIsThatOfTheWindowWithoutWhatIsNotCompared(t *testing.T) {
	needless, failed := write(12, "services", "a"), write(13, "services", "a")
	needless.Needless, failed.Code = true, 409
	record := proxy.Record{
		Calls: []proxy.Call{
			write(9, "sheroes", "a"), write(10, "sheroes", "a"), needless, failed, write(20, "sheroes", "a"), write(14, "events", "e"),
			{At: at(15), Verb: "list", Resource: "pods", Out: 100},
			{At: at(15), Verb: "watch", Resource: "pods", Out: 1000},
			{At: at(15), Verb: "", Name: "/version", Out: 7},
			{At: at(15), Verb: "get", Group: "coordination.k8s.io", Resource: "leases"},
			{At: at(15), Verb: "get", Resource: "pods"},
			{At: at(16), Verb: "deletecollection", Resource: "pods"}, {At: at(17), Verb: "delete", Resource: "pods"},
		},
		Open: []proxy.Call{
			{At: at(9), Verb: "watch", Resource: "services"}, {At: at(19), Verb: "watch", Resource: "configmaps"}, {At: at(19), Verb: "watch", Resource: "events"},
		},
		Events: []proxy.Event{event(9, "pods", "a", 1, 1), event(15, "pods", "a", 1, 1)},
	}
	want := traffic{
		Writes: 5, Needless: 1, Failed: 3, Reads: 2, In: 9, Out: 3*5 + 100 + 10,
		Verbs: map[string]int{"patch": 3, "list": 1, "watch": 2, "get": 1, "delete": 2},
	}
	if got := trafficIn(record, began, at(10), at(20)); !reflect.DeepEqual(got, want) {
		t.Errorf("traffic is %+v, want %+v", got, want)
	}
}

func TestTheListsWithWhichACacheBeginsAreNoReadsHoweverTheyCome(t *testing.T) {
	call := func(ms int, verb, resource string) proxy.Call {
		return proxy.Call{At: at(ms), End: at(ms + 1), Verb: verb, Group: "apps", Resource: resource, Code: 200}
	}
	refused, elsewhere := call(11, "watch", "statefulsets"), call(11, "watch", "statefulsets")
	refused.Code, elsewhere.Group = 422, "other"
	early, page, next, later := call(5, "watch", "statefulsets"), call(12, "list", "statefulsets"), call(13, "list", "statefulsets"), call(14, "watch", "statefulsets")
	for name, test := range map[string]struct {
		calls, open []proxy.Call
		want        int
	}{
		"streamed":                       {nil, []proxy.Call{later}, 0},
		"in one list":                    {[]proxy.Call{page}, []proxy.Call{later}, 0},
		"in pages":                       {[]proxy.Call{page, next}, []proxy.Call{later}, 0},
		"watched for a while":            {[]proxy.Call{page, next, later}, nil, 0},
		"after a watch that was refused": {[]proxy.Call{refused, page, next}, []proxy.Call{later}, 0},
		"of a process before":            {[]proxy.Call{early, page, next}, []proxy.Call{later}, 0},
		"never watched":                  {[]proxy.Call{page, next}, nil, 2},
		"another group is watched":       {[]proxy.Call{page, next}, []proxy.Call{elsewhere, later}, 0},
		"only another group is watched":  {[]proxy.Call{page, next}, []proxy.Call{elsewhere}, 2},
		"listed again":                   {[]proxy.Call{page, later, call(15, "list", "statefulsets"), call(16, "watch", "statefulsets")}, nil, 1},
		"watched and listed at once":     {[]proxy.Call{call(14, "list", "statefulsets")}, []proxy.Call{later}, 1},
		"single objects":                 {[]proxy.Call{call(12, "get", "statefulsets")}, []proxy.Call{later}, 1},
	} {
		if got := trafficIn(proxy.Record{Calls: test.calls, Open: test.open}, at(10), at(10), at(20)).Reads; got != test.want {
			t.Errorf("%s: %d reads, want %d", name, got, test.want)
		}
	}
}

func TestQuantilesAreValuesThatWereMeasured(t *testing.T) {
	values := []int{5, 1, 4, 2, 3}
	for share, want := range map[float64]int{0.5: 3, 0.99: 5, 1: 5, 0: 1, 0.2: 1, 0.21: 2} {
		if got := quantile(values, share); got != want {
			t.Errorf("quantile %v is %d, want %d", share, got, want)
		}
	}
	if got := quantile([]int(nil), 0.5); got != 0 {
		t.Errorf("the median of nothing is %d", got)
	}
}
