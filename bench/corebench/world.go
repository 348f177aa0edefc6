package main

import (
	"context"
	"fmt"
	"time"

	simplev1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// load defines the events that the fake API server serves in a run.
type load struct {
	kinds   []string // sheroKind, serversKind, or both
	wire    bool     // whether events are real bytes instead of decoded objects
	keys    int      // the number of objects of each kind
	updates int      // the number of updates, of all kinds together
	rate    float64  // updates per second of all kinds together; 0 is as fast as they are read
	keep    func(streams.Object)
}

// The kinds.
const (
	sheroKind   = "BellerophonSimple"
	serversKind = "StatefulSet"
)

var bothKinds = []string{sheroKind, serversKind}

// world is the fake API server of one run, with a client for each kind.
type world struct {
	feeds   []*served // the first kind is the one that is reconciled
	clients []*rest.RESTClient
	keep    func(streams.Object)
	clock   time.Time
	begin   chan struct{} // closed when updates may start
}

func newWorld(load load) (*world, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{simplev1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("create the scheme: %w", err)
		}
	}
	made := &world{keep: load.keep, clock: time.Now(), begin: make(chan struct{})}
	if made.keep == nil {
		made.keep = stripped
	}
	server := &server{feeds: map[string]*served{}}
	for _, name := range load.kinds {
		script, contentType, err := newScript(scheme, name)
		if err != nil {
			return nil, err
		}
		script.keys, script.updates = load.keys, load.updates/len(load.kinds)
		feed := &served{feed: &feed{
			script: script, begin: made.begin, rate: load.rate / float64(len(load.kinds)),
			clock: made.clock, delivered: make([]time.Duration, script.length()),
		}}
		if load.wire {
			feed.contentType = contentType
			feed.encode, err = wireEncoder(scheme, script, contentType)
		} else {
			feed.contentType, feed.encode, feed.objects = numbersType, encodeNumber, newDecodedObjects(script)
		}
		if err != nil {
			return nil, err
		}
		server.feeds[script.kind.Resource()] = feed
		client, err := server.client(scheme, script.kind)
		if err != nil {
			return nil, fmt.Errorf("create a client for %s: %w", name, err)
		}
		made.feeds, made.clients = append(made.feeds, feed), append(made.clients, client)
	}
	return made, nil
}

// newScript returns an empty script of a kind, and the content type of its encoded events.
func newScript(scheme *runtime.Scheme, name string) (*script, string, error) {
	made, example, options, contentType := shero, streams.Object(&simplev1.BellerophonSimple{}), []sources.KindOption{sources.Plural("sheroes")}, runtime.ContentTypeJSON
	if name == serversKind {
		made, example, options, contentType = servers, &appsv1.StatefulSet{}, nil, runtime.ContentTypeProtobuf
	}
	kind, err := sources.KindOf(scheme, example, options...)
	return &script{kind: kind, make: made}, contentType, err
}

// side is one side of the comparison. run works on a world until ctx ends, and calls the recorder
// for each reconcile. When run returns, all of its goroutines have returned.
type side struct {
	name string
	run  func(ctx context.Context, world *world, recorder *recorder) error
}

// workers is the number of concurrent reconciles on each side.
const workers = 4
