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

// load is what the fake API end serves in a run.
type load struct {
	kinds   []string // of kindNames
	wire    bool     // real bytes; otherwise decoded objects
	keys    int      // objects of each kind
	updates int      // of all kinds together
	rate    float64  // updates per second of all kinds together; 0: as fast as they are read
	keep    func(streams.Object)
}

// The kinds.
const (
	sheroKind   = "BellerophonSimple"
	serversKind = "StatefulSet"
)

var bothKinds = []string{sheroKind, serversKind}

// world is the fake API end of one run, with a client for each kind.
type world struct {
	feeds   []*served // the first kind is the one that is reconciled
	clients []*rest.RESTClient
	keep    func(streams.Object)
	clock   time.Time
	begin   chan struct{} // is closed when updates may start
}

func newWorld(load load) (*world, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{simplev1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("making the scheme: %w", err)
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
		server.feeds[script.kind.Resource] = feed
		client, err := server.client(scheme, script.kind)
		if err != nil {
			return nil, fmt.Errorf("making a client of %s: %w", name, err)
		}
		made.feeds, made.clients = append(made.feeds, feed), append(made.clients, client)
	}
	return made, nil
}

// newScript is an empty script of a kind, and the content type of its bytes.
func newScript(scheme *runtime.Scheme, name string) (*script, string, error) {
	made, example, options, contentType := shero, streams.Object(&simplev1.BellerophonSimple{}), []sources.KindOption{sources.Plural("sheroes")}, runtime.ContentTypeJSON
	if name == serversKind {
		made, example, options, contentType = servers, &appsv1.StatefulSet{}, nil, runtime.ContentTypeProtobuf
	}
	kind, err := sources.KindOf(scheme, example, options...)
	return &script{kind: kind, make: made}, contentType, err
}

// side is one of the contenders. It runs against a world until ctx ends and has
// reconcile called; when it returns, all of its goroutines have.
type side struct {
	name string
	run  func(ctx context.Context, world *world, recorder *recorder) error
}

// workers is how many reconciles run at once on each side.
const workers = 4
