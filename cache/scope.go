package cache

import (
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// scope is what a source of a kind covers, a namespace or all of them, and how far the source has
// come.
type scope struct {
	namespace string
	listed    bool   // a complete list is in
	lost      bool   // the source has lost the API server
	version   string // a list or a bookmark said that everything up to this resource version is in
	required  string // the version that the server reported as current when it was asked
	seen      string // the newest version of any event
	selected  int64  // the number of the last selection that is complete

	confirmed time.Time // when the server said that version is current
	resumed   time.Time // when the source last lost the server, or had it back after that
}

// scopes are the scopes of a kind. There are few.
type scopes []scope

// of returns the scope of a namespace. If there is a scope of all namespaces, it returns that one.
func (s scopes) of(namespace string) *scope {
	for i := range s {
		if s[i].namespace == namespace || s[i].namespace == "" {
			return &s[i]
		}
	}
	return nil
}

// add adds a scope for a namespace that has none.
func (s scopes) add(namespace string) scopes {
	if s.of(namespace) != nil {
		return s
	}
	return append(s, scope{namespace: namespace})
}

// level returns the highest level that the scopes allow, and until when it holds if nothing comes.
// A version that the server confirmed longer ago than bound is no longer current. A bound of 0 is
// no bound.
func (s scopes) level(now time.Time, bound time.Duration) (level Level, until time.Time) {
	level = Converged
	for i := range s {
		scope := &s[i]
		switch expires := scope.confirmed.Add(bound); {
		case !scope.listed:
			return Starting, time.Time{}
		case scope.lost || streams.IsOlderVersion(scope.version, scope.required):
			level = Listed
		case bound == 0:
		case !now.Before(expires):
			level = Listed
		case until.IsZero() || expires.Before(until):
			until = expires
		}
	}
	if len(s) == 0 {
		return Starting, time.Time{}
	}
	return level, until
}

// selected reports whether the selection of a number is complete in all scopes.
func (s scopes) selected(number int64) bool {
	for i := range s {
		if s[i].selected < number {
			return false
		}
	}
	return true
}

// confirm records that the server said at a time that the scope's version is current.
func (s *scope) confirm(at time.Time) {
	if at.After(s.confirmed) {
		s.confirmed = at
	}
}

// measures reports whether the time since an event measures a loop. It does not if the source lost
// the server in between.
func (s *scope) measures(since time.Time) bool {
	return !since.IsZero() && !s.lost && !since.Before(s.resumed)
}

// see records the version of an object that is in. Older events of other keys may still be in
// flight, so only lists and bookmarks set version.
func (s *scope) see(version string) {
	if !reached(s.seen, version) {
		s.seen = version
	}
}

// reached reports whether a resource version is there, and is not older than another one.
func reached(at, version string) bool { return at != "" && !streams.IsOlderVersion(at, version) }
