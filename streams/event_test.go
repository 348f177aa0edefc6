package streams_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAKeyReadsAsPeopleWriteIt(t *testing.T) {
	named := func(kind schema.GroupKind, namespace, name string) string {
		return streams.KeyOf(kind, &metav1.ObjectMeta{Namespace: namespace, Name: name}).String()
	}
	for got, want := range map[string]string{
		named(schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, "default", "pegasus"): "StatefulSet.apps default/pegasus",
		named(schema.GroupKind{Kind: "Pod"}, "default", "pegasus-0"):                      "Pod default/pegasus-0",
		named(schema.GroupKind{Kind: "Node"}, "", "node-1"):                               "Node node-1",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTypesHaveNames(t *testing.T) {
	for got, want := range map[fmt.Stringer]string{
		streams.EventType(0): "Unknown", streams.ListStart: "ListStart", streams.Listed: "Listed", streams.ListEnd: "ListEnd",
		streams.Applied: "Applied", streams.Deleted: "Deleted", streams.Bookmark: "Bookmark", streams.Disconnected: "Disconnected",
		streams.Connected: "Connected", streams.Selected: "Selected", streams.EventType(10): "Unknown",
		streams.ChangeType(0): "Unknown", streams.Added: "Added", streams.Updated: "Updated", streams.Removed: "Removed",
		streams.Unchanged: "Unchanged", streams.ChangeType(5): "Unknown",
	} {
		if got.String() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestOlderComparesVersionsAsNumbers(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"9", "10", true}, {"10", "9", false}, {"7", "7", false},
		{"123456789012345678901234567890", "123456789012345678901234567891", true},
		{"", "1", false}, {"1", "", false}, {"0", "1", false}, {"abc", "abd", false}, {"01", "2", false},
	} {
		if got := streams.IsOlderVersion(test.a, test.b); got != test.want {
			t.Errorf("IsOlderVersion(%q, %q) = %v, want %v", test.a, test.b, got, test.want)
		}
	}
}

func versions(causes []streams.Cause) string {
	text := ""
	for _, cause := range causes {
		if cause == (streams.Cause{}) {
			text += "..."
			continue
		}
		text += cause.ResourceVersion + " "
	}
	return text
}

func causes(from, to int) (made []streams.Cause) {
	for i := from; i <= to; i++ {
		made = append(made, streams.Cause{Type: streams.Applied, ResourceVersion: fmt.Sprint(i)})
	}
	return made
}

func TestCausesAreWhatAnEventReplacedThenItself(t *testing.T) {
	event := streams.Event{Type: streams.Deleted, ResourceVersion: "3", Coalesced: causes(1, 2)}
	got := event.Causes()
	if versions(got) != "1 2 3 " || got[2].Type != streams.Deleted {
		t.Errorf("got %v", got)
	}
}

func TestBeyondSixteenTheOldestCausesAreLeftOut(t *testing.T) {
	if got, want := versions(streams.JoinCauses(causes(1, 8), causes(9, 16))), "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 "; got != want {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	joined := streams.JoinCauses(causes(1, 8), causes(9, 17))
	if got, want := versions(joined), "...3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 "; got != want {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	// Joined once more, one zero Cause still stands for all causes that are left out.
	if got, want := versions(streams.JoinCauses(joined, causes(18, 18))), "...4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 "; got != want {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestJoiningCausesChangesNeitherSide(t *testing.T) {
	backing := causes(1, 4)
	first, second := backing[:2], causes(5, 6)
	if got := versions(streams.JoinCauses(first, second)); got != "1 2 5 6 " {
		t.Errorf("got %v", got)
	}
	if got := versions(backing); got != "1 2 3 4 " {
		t.Errorf("joining wrote behind its first part: %v", got)
	}
	if got := versions(streams.JoinCauses(nil, second)) + versions(streams.JoinCauses(second, nil)); got != "5 6 5 6 " {
		t.Errorf("joined with nothing: %v", got)
	}
}

func TestAnErrorNamesWhatFailed(t *testing.T) {
	key := streams.KeyOf(schema.GroupKind{Kind: "Pod"}, &metav1.ObjectMeta{Namespace: "ns", Name: "a"})
	for _, test := range []struct {
		err  streams.Error
		want string
	}{
		{streams.Error{Source: "watch of Pod", Err: io.EOF}, "watch of Pod: EOF"},
		{streams.Error{Source: "watch of Pod", Key: key, Err: io.EOF}, "watch of Pod: Pod ns/a: EOF"},
	} {
		if test.err.Error() != test.want || !errors.Is(&test.err, io.EOF) {
			t.Errorf("got %q, want %q", test.err.Error(), test.want)
		}
	}
}
