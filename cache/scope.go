package cache

import "github.com/bellerophon-io/bellerophon/streams"

// scope is what a source of a kind covers, a namespace or all of them, and how far it is.
type scope struct {
	namespace string
	listed    bool   // a complete list is in
	lost      bool   // the source has lost the API server
	version   string // everything up to this resource version is in, as a list or a bookmark said
	required  string // what the server said is current when it was asked
	seen      string // the newest version of any event
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

// level is the one that the scopes allow.
func (s scopes) level() Level {
	level := Settled
	for _, scope := range s {
		switch {
		case !scope.listed:
			return Starting
		case scope.lost || streams.Older(scope.version, scope.required):
			level = Listed
		}
	}
	if len(s) == 0 {
		return Starting
	}
	return level
}

// see notes a version of which something is in. Something older of another key may still
// be on its way, so that version is that of lists and bookmarks alone.
func (s *scope) see(version string) {
	if !reached(s.seen, version) {
		s.seen = version
	}
}

// reached says whether a resource version, if there is one, is another or newer.
func reached(at, version string) bool { return at != "" && !streams.Older(at, version) }
