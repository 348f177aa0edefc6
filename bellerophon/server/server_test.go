package server

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
)

func TestPeersFormOneClusterAndAnyMemberAnswers(t *testing.T) {
	w := newWorld(t, 3, true)
	w.formed()
	for i, p := range w.members {
		key := fmt.Sprint("/v1/keys/from-", i)
		w.must(p, "PUT", key, "value", 200)
		for _, other := range w.members {
			if got := w.must(other, "GET", key, "", 200); got.body != "value" {
				t.Errorf("%s has %q", other.options.Name, got.body)
			}
		}
	}
}

func TestAClusterThatWasKilledAsAWholeHasItsData(t *testing.T) {
	w := newWorld(t, 3, true)
	w.formed()
	for i := range 50 {
		w.must(w.members[i%3], "PUT", fmt.Sprint("/v1/keys/", i), strings.Repeat("x", i), 200)
	}
	for _, p := range w.members {
		w.kill(p)
	}
	for _, p := range w.members {
		w.start(p)
	}
	w.ready(w.members...)
	for i := range 50 {
		if got := w.must(w.members[i%3], "GET", fmt.Sprint("/v1/keys/", i), "", 200); len(got.body) != i {
			t.Errorf("key %d has %d bytes, want %d", i, len(got.body), i)
		}
	}
}

func TestALeaderThatEndsHandsItsLeadershipOver(t *testing.T) {
	w := newWorld(t, 3, true)
	leader := w.formed()
	before, err := w.status(leader)
	if err != nil {
		t.Fatal(err)
	}
	w.stop(leader)
	var others []*process
	for _, p := range w.members {
		if p != leader {
			others = append(others, p)
		}
	}
	after, err := w.status(w.ready(others...))
	if err != nil {
		t.Fatal(err)
	}
	// An election after a silence could take several terms; a transfer takes one.
	if after.Term != before.Term+1 {
		t.Errorf("the term went from %d to %d, want one more", before.Term, after.Term)
	}
}

func TestAMemberWithoutItsVolumeIsAnotherMember(t *testing.T) {
	w := newWorld(t, 3, true)
	leader := w.formed()
	lost := w.members[0]
	if lost == leader {
		lost = w.members[1]
	}
	w.must(leader, "PUT", "/v1/keys/a", "kept", 200)
	before, err := w.status(lost)
	if err != nil {
		t.Fatal(err)
	}
	w.kill(lost)
	if err := os.RemoveAll(lost.options.Dir); err != nil {
		t.Fatal(err)
	}
	w.start(lost)
	w.ready(w.members...)
	after, err := w.status(lost)
	if err != nil {
		t.Fatal(err)
	}
	if after.ID == before.ID {
		t.Errorf("it is %s again, and could vote twice", after.ID)
	}
	w.must(leader, "DELETE", "/v1/members/"+before.ID, "", 200)
	if got := w.must(lost, "GET", "/v1/keys/a?consistency=local", "", 200); got.body != "kept" {
		t.Errorf("it has %q", got.body)
	}
	status, err := w.status(w.ready(w.members...))
	if err != nil || len(status.Members) != 3 {
		t.Errorf("the members are %+v, %v; want three", status.Members, err)
	}
}

func TestMembersJoinAndLeaveOnRequest(t *testing.T) {
	w := newWorld(t, 1, false)
	first := w.members[0]
	w.answers(first)
	w.must(first, "GET", "/readyz", "", 503)
	w.must(first, "GET", "/healthz", "", 200)
	w.must(first, "PUT", "/v1/cluster", `{"name":"one"}`, 200)
	w.must(first, "PUT", "/v1/cluster", `{"name":"one"}`, 200)
	w.must(first, "PUT", "/v1/cluster", `{"name":"two"}`, http.StatusConflict)
	w.ready(first)
	w.must(first, "PUT", "/v1/keys/a", "1", 200)

	second := w.add("second")
	status := w.answers(second)
	if status.Role != client.Waiting || status.Cluster != "" {
		t.Fatalf("a new member is %+v", status)
	}
	w.must(first, "PUT", "/v1/members/"+status.ID, fmt.Sprintf(`{"address":%q,"voter":false}`, status.Address), 200)
	w.ready(first, second)
	status, err := w.status(second)
	if err != nil || status.Role != client.Learner {
		t.Fatalf("a member that does not vote is %+v, %v", status, err)
	}
	w.must(second, "PUT", "/v1/cluster", `{"name":"two"}`, http.StatusConflict)
	// Asked at the member that does not lead.
	w.must(second, "PUT", "/v1/members/"+status.ID, fmt.Sprintf(`{"address":%q,"voter":true}`, status.Address), 200)
	w.eventually("the second votes", func() error {
		if status, err := w.status(second); err != nil || status.Role != client.Follower {
			return fmt.Errorf("%+v, %w", status, err)
		}
		return nil
	})
	w.must(first, "PUT", "/v1/leader", fmt.Sprintf(`{"id":%q}`, status.ID), 200)
	if leader := w.ready(first, second); leader != second {
		t.Errorf("%s leads, want the second", leader.options.Name)
	}
	w.must(first, "PUT", "/v1/leader", `{"id":"nobody"}`, http.StatusNotFound)

	// The leader leaves: it hands over, and the other removes it.
	w.must(second, "DELETE", "/v1/members/"+status.ID, "", 200)
	w.ready(first)
	if status, err := w.status(first); err != nil || len(status.Members) != 1 {
		t.Errorf("the members are %+v, %v; want one", status.Members, err)
	}
	own, err := w.status(first)
	if err != nil {
		t.Fatal(err)
	}
	w.must(first, "DELETE", "/v1/members/"+own.ID, "", http.StatusConflict)
	w.must(first, "PUT", "/v1/keys/a", "2", 200)
}
