package sourcestest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/rest"
)

// These are the defaults of [Options].
const (
	DefaultHistory   = 1000
	DefaultBookmarks = time.Minute
	DefaultMaxWait   = time.Second
)

// Options configures a [Server]. Only the scheme is required. Without a script, a seed and rates
// there are no faults.
type Options struct {
	// Scheme has the kinds to serve. Each kind with a list type in the scheme is served, under its
	// regular plural. Required.
	Scheme *runtime.Scheme
	// Kinds are served in addition, or under other plurals. They need no type in the scheme if all
	// clients of the server use JSON.
	Kinds []Kind

	History   int           // the number of events over which watches can resume; default DefaultHistory, at least 1
	Bookmarks time.Duration // the time between bookmarks; default DefaultBookmarks, at least 1 ms

	// ManagedFields records in each object which client set which field, as API servers do. By default,
	// the server does so from the first server-side apply to an object, which costs other objects nothing.
	// Fields from before that apply belong to the manager "before-first-apply".
	ManagedFields bool
	// GarbageCollection is how long after a change the garbage collector acts on it, at least 1 ms. By
	// default there is no collector, as in envtest: dependents stay when their owner is gone.
	GarbageCollection time.Duration

	// NoBookmarks serves watches without bookmarks, as many aggregated API servers do. Such servers
	// do not stream lists either: they refuse a watch with sendInitialEvents with code 422, and
	// client-go lists instead.
	NoBookmarks bool
	// NoResourceVersions holds kinds whose objects and lists have no resource version, as in
	// metrics.k8s.io. These kinds have neither bookmarks nor streamed lists.
	NoResourceVersions []schema.GroupVersionKind

	Script  []Fault
	Seed    uint64             // if set, the default of Rates is DefaultRates
	Rates   map[Action]float64 // the probability of each fault, 0 to 1; at most 1 in all for faults of events, and for faults of requests
	MaxWait time.Duration      // bounds the waits that the seed chooses; default DefaultMaxWait, at least 1 ms
}

// Kind is a kind of [Options], with the place where it is served.
type Kind struct {
	schema.GroupVersionKind
	Resource      string // the plural in URLs
	ClusterScoped bool   // as discovery says; a kind of the scheme counts as namespaced until an object has no namespace
}

func (o Options) withDefaults() (Options, error) {
	if o.Seed != 0 && o.Rates == nil {
		o.Rates = DefaultRates()
	}
	o.History = either(o.History, DefaultHistory)
	o.MaxWait = either(o.MaxWait, DefaultMaxWait)
	switch {
	case o.Scheme == nil:
		return o, errors.New("sourcestest: Scheme is required; client-go's scheme.Scheme has the kinds of Kubernetes")
	case o.History < 1:
		return o, fmt.Errorf("sourcestest: History is %d; allowed is 1 and above", o.History)
	case o.NoBookmarks && o.Bookmarks != 0:
		return o, fmt.Errorf("sourcestest: Bookmarks is %v and NoBookmarks is set; set one of them", o.Bookmarks)
	case o.Bookmarks < 0 || o.Bookmarks > 0 && o.Bookmarks < time.Millisecond:
		return o, fmt.Errorf("sourcestest: Bookmarks is %v; allowed is 1ms and above", o.Bookmarks)
	case o.GarbageCollection < 0 || o.GarbageCollection > 0 && o.GarbageCollection < time.Millisecond:
		return o, fmt.Errorf("sourcestest: GarbageCollection is %v; allowed is 1ms and above", o.GarbageCollection)
	case o.MaxWait < time.Millisecond:
		return o, fmt.Errorf("sourcestest: MaxWait is %v; allowed is 1ms and above", o.MaxWait)
	}
	for _, kind := range o.Kinds {
		if kind.Kind == "" || kind.Version == "" || kind.Resource == "" {
			return o, fmt.Errorf("sourcestest: Kinds has %v with the plural %q; give a kind, a version and a plural", kind.GroupVersionKind, kind.Resource)
		}
	}
	o.Bookmarks = either(o.Bookmarks, DefaultBookmarks)
	return o, checkRates(o.Rates)
}

// Server is a fake API server. Create it with [New]. Its methods may be called from any goroutine.
type Server struct {
	options Options
	codecs  serializer.CodecFactory

	mu      sync.Mutex
	kinds   map[schema.GroupVersionResource]*served
	places  map[schema.GroupVersionKind]*served
	version uint64   // the resource version of the last write
	made    uint64   // the number of uids given out
	history []change // the most recent changes
	forgot  uint64   // the version up to which history was dropped
	watches map[*watching]struct{}

	collectAt  time.Time // when the garbage collector is due; zero if it has nothing to do
	collecting time.Time // when the running collector was due; zero if it does not run

	script   []*scripted
	chance   chance
	numbers  map[string]int // of requests in each stream, for chance
	requests map[string]int
	faults   map[Action]int
}

// served is a kind and its objects.
type served struct {
	schema.GroupVersionResource
	kind    schema.GroupVersionKind
	objects objects
	order   []types.NamespacedName          // see ordered
	texts   map[types.NamespacedName]asText // see text
	gone    bool                            // see Uninstall

	unversioned bool // see Options.NoResourceVersions
	unscoped    bool // see Kind.ClusterScoped
	typed       bool // the scheme has a Go type
	builtIn     bool // the type is of Kubernetes, not of a custom resource

	managers map[string]*managedfields.FieldManager // by subresource
}

// New creates a server without objects.
func New(options Options) (*Server, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		options:  options,
		codecs:   serializer.NewCodecFactory(options.Scheme),
		kinds:    map[schema.GroupVersionResource]*served{},
		places:   map[schema.GroupVersionKind]*served{},
		version:  1,
		watches:  map[*watching]struct{}{},
		chance:   chance{options.Seed, options.Rates, options.MaxWait},
		numbers:  map[string]int{},
		requests: map[string]int{},
		faults:   map[Action]int{},
	}
	object, untyped := reflect.TypeFor[metav1.Object](), reflect.TypeFor[unstructured.Unstructured]()
	for kind, typ := range options.Scheme.AllKnownTypes() {
		list := kind.GroupVersion().WithKind(kind.Kind + "List")
		if kind.Version != runtime.APIVersionInternal && reflect.PointerTo(typ).Implements(object) && options.Scheme.Recognizes(list) {
			place, _ := meta.UnsafeGuessKindToResource(kind)
			made := s.serve(kind, place)
			made.typed = typ != untyped
			made.builtIn = strings.HasPrefix(typ.PkgPath(), "k8s.io/api/") || strings.HasPrefix(typ.PkgPath(), "k8s.io/apiextensions-apiserver/")
		}
	}
	for _, kind := range options.Kinds {
		made := s.serve(kind.GroupVersionKind, kind.GroupVersion().WithResource(kind.Resource))
		made.unscoped = kind.ClusterScoped
	}
	for _, kind := range options.NoResourceVersions {
		place := s.places[kind]
		if place == nil {
			return nil, fmt.Errorf("sourcestest: NoResourceVersions has %v, which is not served; add it to the scheme or to Kinds", kind)
		}
		place.unversioned = true
	}
	if err := s.Inject(options.Script...); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) serve(kind schema.GroupVersionKind, place schema.GroupVersionResource) *served {
	made := &served{GroupVersionResource: place, kind: kind, objects: objects{}, texts: map[types.NamespacedName]asText{}}
	if old := s.places[kind]; old != nil {
		delete(s.kinds, old.GroupVersionResource)
		made.typed, made.builtIn = old.typed, old.builtIn
	}
	s.kinds[place], s.places[kind] = made, made
	return made
}

// Config returns a new client configuration for the server.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: "http://sourcestest", Transport: s, QPS: -1}
}

// Inject appends faults to the script. If one of them is not valid, Inject appends none and returns
// an error.
func (s *Server) Inject(faults ...Fault) error {
	var added []*scripted
	for i, fault := range faults {
		fault, err := fault.withDefaults()
		if err != nil {
			return fmt.Errorf("sourcestest: fault %d of the script: %w", i+1, err)
		}
		added = append(added, &scripted{Fault: fault})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, added...)
	return nil
}

// Heal ends all faults, including faults that the seed would choose. Delayed events stay delayed,
// requests that hang stay so, and silent watches stay silent.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.chance.rates = nil, nil
}

// Break breaks the connections of all open watches, between two events.
func (s *Server) Break() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for watch := range s.watches {
		watch.breakOff()
	}
}

// Silence silences all open watches, as the action Silence does. Watches opened later are not
// affected.
func (s *Server) Silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for watch := range s.watches {
		watch.silence()
	}
}

// Compact drops the history. A watch that resumes from an earlier version gets an error of code
// 410, and so does the next page of a list in progress. Open watches stay open.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history, s.forgot = nil, s.version
}

// Counts holds what has happened at a server since its creation.
type Counts struct {
	Requests map[string]int // by verb and resource, such as "list configmaps" or "watch deployments.apps"
	Faults   map[Action]int // a Reorder counts even if no other event came in time
	Watches  int            // open watches
}

// Counts returns the counts so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Counts{maps.Clone(s.requests), maps.Clone(s.faults), len(s.watches)}
}

// decide returns the fault that applies on an occasion, if any. The caller holds the lock.
func (s *Server) decide(o occasion) (fault Fault, found bool) {
	for _, candidate := range s.script {
		if candidate.due(o) && !found {
			candidate.happened++
			fault, found = candidate.Fault, true
		}
	}
	if !found {
		fault, found = s.chance.of(o)
	}
	if found {
		s.faults[fault.Action]++
	}
	return fault, found
}
