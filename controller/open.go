package controller

import (
	"context"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// Stage is a stage of the user's own, between the debounce and the cache: see [Options].
type Stage = pipeline.Stage

// Events returns the events that enter the cache: debounced, and changed by the stages of
// Options.Stages. The stream is hot: an observation begins with the next event, and ends when Run
// has returned. Any number of observers may follow it, and the pipeline waits for none of them: one
// that reads too slowly gets a [streams.Lagged] error and continues with the next event. Objects
// belong to the cache and must not be changed.
func (m *Manager) Events() streams.Stream[streams.Event] { return m.pipeline.Events() }

// Changes returns what events change in the cache. It behaves as Events does. Readers of the cache
// see a change before it is emitted.
func (m *Manager) Changes() streams.Stream[streams.Change] { return m.pipeline.Changes() }

// Results returns the results of all attempts. It behaves as Events does.
func (m *Manager) Results() streams.Stream[operators.Result] { return m.pipeline.Results() }

// Levels returns the level of sync now, and each level that it changes to: see
// [cache.Cache.Levels].
func (m *Manager) Levels() streams.Stream[cache.Level] { return m.cache.Levels() }

// From feeds a controller with requests from a stream: each value names an object to reconcile. The
// stream may come from anywhere, such as a timer, a file or a message bus; [streams.From] makes one
// of an RxGo observable. name is for people, in errors of the stream.
//
// The stream is observed from the time when the kinds of the controller are [cache.Current], or from
// the start of the manager if that is later, until the controller is removed, the manager ends, or
// the stream ends by itself. Its errors are reported like failures of a source, and do not end it.
// While the pipeline is full, the stream waits. From may be given several times.
func From(name string, objects streams.Stream[types.NamespacedName]) Option {
	return func(d *definition) { d.feeds = append(d.feeds, feed{name, objects}) }
}

// feed is a stream of requests for a controller.
type feed struct {
	name    string
	objects streams.Stream[types.NamespacedName]
}

// followFeeds asks for what the feeds of a controller name, until ctx ends or all of them do.
func (m *Manager) followFeeds(ctx context.Context, of *member) {
	group := lifecycle.New(ctx)
	for _, feed := range of.feeds {
		group.Go("feed "+feed.name, func(ctx context.Context) error { return m.follow(ctx, of, feed) })
	}
	_ = group.Wait() // ForEach fails only if a callback of ours panics.
}

// follow asks for what a feed names, until ctx ends.
func (m *Manager) follow(ctx context.Context, of *member, feed feed) error {
	return streams.ForEach(ctx, feed.objects, func(objects []types.NamespacedName) {
		if ctx.Err() != nil {
			return // The name may be another controller's soon.
		}
		now := time.Now()
		requests := streams.NewBatch[operators.Request](len(objects))
		for _, object := range objects {
			requests = append(requests, operators.Request{Controller: of.name, NamespacedName: object, Received: now})
		}
		m.pipeline.Ask(ctx, requests...)
		streams.Recycle(requests) // Ask has copied them.
	}, func(err error) {
		m.pipeline.Fail(ctx, &streams.Error{Source: "From " + feed.name, Key: streams.Key{}, Err: err})
	})
}
