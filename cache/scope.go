package cache

import (
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// scope is what a source of a kind covers, a namespace or all of them, and how far it is.
type scope struct {
	namespace string
	listed    bool   // a complete list is in
	lost      bool   // the source has lost the API server
	version   string // everything up to this resource version is in, as a list or a bookmark said
	required  string // what the server said is current when it was asked
	seen      string // the newest version of any event

	confirmed time.Time // when the server said that version is current
	resumed   time.Time // when the source lost the server last, or got it back since
}

// scopes is those of a kind. There are few.
type scopes []scope

// of is the scope of a namespace, which is that of all of them where that is known.
func (s scopes) of(namespace string) *scope {
	for i := range s {
		if s[i].namespace == namespace || s[i].namespace == "" {
			return &s[i]
		}
	}
	return nil
}

// add adds the scope of a namespace that is not known.
func (s scopes) add(namespace string) scopes {
	if s.of(namespace) != nil {
		return s
	}
	return append(s, scope{namespace: namespace})
}

// level returns the highest level that the scopes allow, and until when it holds if nothing
// comes. A version that the server confirmed longer ago than bound, if that is not 0, is no
// longer current.
func (s scopes) level(now time.Time, bound time.Duration) (level Level, until time.Time) {
	level = Converged
	for i := range s {
		scope := &s[i]
		switch expires := scope.confirmed.Add(bound); {
		case !scope.listed:
			return Starting, time.Time{}
		case scope.lost || streams.OlderVersion(scope.version, scope.required):
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

// confirm notes that the server said at a time that the scope's version is current.
func (s *scope) confirm(at time.Time) {
	if at.After(s.confirmed) {
		s.confirmed = at
	}
}

// measures reports whether the time since an event measures a loop. It does not if the source
// lost the server in between.
func (s *scope) measures(since time.Time) bool {
	return !since.IsZero() && !s.lost && !since.Before(s.resumed)
}

// see notes a version of which something is in. Something older of another key may still
// be on its way, so that version is that of lists and bookmarks alone.
func (s *scope) see(version string) {
	if !reached(s.seen, version) {
		s.seen = version
	}
}

// reached says whether a resource version, if there is one, is another or newer.
func reached(at, version string) bool { return at != "" && !streams.OlderVersion(at, version) }
