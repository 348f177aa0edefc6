package introspection

import "time"

// Readiness says whether an object is ready.
type Readiness string

// The values of Readiness. An object is Unknown if the cache does not keep what decides.
const (
	Ready    Readiness = "True"
	NotReady Readiness = "False"
	Unknown  Readiness = "Unknown"
)

// Node is an object of the cache, with the objects that it owns.
type Node struct {
	Kind            string     `json:"kind"` // with its group, such as StatefulSet.apps
	Namespace       string     `json:"namespace,omitempty"`
	Name            string     `json:"name"`
	Ready           Readiness  `json:"ready"`
	Reason          string     `json:"reason,omitempty"`
	Message         string     `json:"message,omitempty"`
	Since           *time.Time `json:"since,omitempty"` // of the condition that decided
	Created         *time.Time `json:"created,omitempty"`
	ResourceVersion string     `json:"resourceVersion"`
	Deleting        bool       `json:"deleting,omitempty"`
	Gone            bool       `json:"gone,omitempty"`     // the cache had the object, and has it no more
	Children        []Node     `json:"children,omitempty"` // by kind, namespace and name
	LeftOut         bool       `json:"leftOut,omitempty"`  // children are left out, because the tree is too large or has a cycle
}

// Roots is the answer of /debug/tree without an object: objects of the kinds that controllers reconcile.
type Roots struct {
	Total   int    `json:"total"` // of the search, also without a place in Objects
	Objects []Node `json:"objects"`
}
