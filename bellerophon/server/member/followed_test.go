package member

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestOnlyVotersThatFollowedSinceThenCount(t *testing.T) {
	began := time.Now()
	before, after := began.Add(-time.Millisecond), began.Add(time.Millisecond)
	servers := []raft.Server{{ID: "self"}, {ID: "a"}, {ID: "b"}, {ID: "learner", Suffrage: raft.Nonvoter}}
	for name, test := range map[string]struct {
		last map[raft.ServerID]acknowledged
		want bool
	}{
		"nobody":                      {nil, false},
		"an answer from before":       {map[raft.ServerID]acknowledged{"a": {7, before}, "b": {7, before}}, false},
		"an answer from another term": {map[raft.ServerID]acknowledged{"a": {6, after}}, false},
		"a learner":                   {map[raft.ServerID]acknowledged{"learner": {7, after}}, false},
		"a member that left":          {map[raft.ServerID]acknowledged{"c": {7, after}}, false},
		"one of two":                  {map[raft.ServerID]acknowledged{"a": {7, after}, "b": {7, before}}, true},
		"at the same moment":          {map[raft.ServerID]acknowledged{"b": {7, began}}, true},
	} {
		f := &followed{last: test.last}
		if got := f.byMajority(servers, "self", 7, began); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	alone := &followed{}
	if !alone.byMajority(servers[:1], "self", 7, began) {
		t.Error("a member alone is no majority")
	}
}

func TestALateAnswerDoesNotReplaceANewerOne(t *testing.T) {
	began := time.Now()
	f := &followed{last: map[raft.ServerID]acknowledged{}}
	f.note("a", acknowledged{7, began})
	f.note("a", acknowledged{7, began.Add(-time.Second)})
	f.note("a", acknowledged{6, began.Add(time.Second)})
	if got := f.last["a"]; got != (acknowledged{7, began}) {
		t.Errorf("it has %+v", got)
	}
}
