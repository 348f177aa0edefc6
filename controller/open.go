package controller

import (
	"context"
	"errors"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Stage is a stage that the user adds between the debounce and the cache: see [Options].
type Stage = pipeline.Stage

// Events returns the events that enter the cache, after the debounce and Options.Stages. The stream is
// hot: an observation begins with the next event, and ends when Run ends.
//
// Any number of observers may follow the stream, and the pipeline waits for none of them. An observer
// that reads too slowly gets a [streams.Lagged] error and continues with the next event. Objects belong
// to the cache and must not be changed.
func (m *Manager) Events() streams.Stream[streams.Event] { return m.pipeline.Events() }

// Changes returns what events change in the cache. It behaves as Events does. Readers of the cache
// see a change before it is emitted.
func (m *Manager) Changes() streams.Stream[streams.Change] { return m.pipeline.Changes() }

// Results returns the results of all attempts. It behaves as Events does.
func (m *Manager) Results() streams.Stream[operators.Result] { return m.pipeline.Results() }

// Levels returns the level of sync now, and each level that it changes to: see [cache.Cache.Levels]. An
// observation ends when Run ends.
func (m *Manager) Levels() streams.Stream[cache.Level] {
	return streams.Create(func(ctx context.Context, out streams.Sink[cache.Level]) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(m.over, cancel)()
		_ = streams.ForEach(ctx, m.cache.Levels(), func(levels []cache.Level) { out.Send(levels) }, func(err error) { out.Error(err) })
	})
}

// From adds requests from a stream to a controller: each value names an object to reconcile. The values
// may come from a timer, a file or a message bus, for example. [streams.From] makes a stream of an RxGo
// observable. name appears in errors of the stream.
//
// The stream is observed as soon as the manager runs and the kinds of the controller are
// [cache.Current]. The observation ends when the controller is removed, the manager ends, or the stream
// ends by itself. Errors of the stream are reported like failures of a source, and do not end it. A stream
// that panics is observed again after a backoff of a second to a minute. While the pipeline is full, the
// stream waits. From may be given several times.
func From(name string, objects streams.Stream[types.NamespacedName]) Option {
	return option(func(d *definition) { d.feeds = append(d.feeds, feed{name: name, objects: objects}) })
}

// feed is a stream of requests for a controller.
type feed struct {
	name    string
	objects streams.Stream[types.NamespacedName]
	routine bool // see operators.Request
}

// followFeeds requests the objects that the feeds of a controller name, until ctx or all feeds end.
func (m *Manager) followFeeds(ctx context.Context, of *member) {
	group := lifecycle.New(ctx)
	for _, feed := range of.feeds {
		group.Go("feed "+feed.name, func(ctx context.Context) error { return m.follow(ctx, of, feed) })
	}
	_ = group.Wait() // ForEach fails only if one of the callbacks in follow panics.
}

// follow requests the objects that a feed names, until ctx or the feed ends. A feed that ends by a panic is observed
// again after a backoff.
func (m *Manager) follow(ctx context.Context, of *member, feed feed) error {
	first := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.25, Steps: 6, Cap: time.Minute}
	backoff := first
	for {
		began, panicked := time.Now(), false
		err := streams.ForEach(ctx, feed.objects, func(objects []types.NamespacedName) {
			if ctx.Err() != nil {
				return // The controller is removed, and another one may soon have its name.
			}
			now := time.Now()
			panicked = false // It was a panic within the stream, which goes on.
			requests := streams.NewBatch[operators.Request](len(objects))
			for _, object := range objects {
				requests = append(requests, operators.Request{Controller: of.name, NamespacedName: object, Received: now, Routine: feed.routine})
			}
			m.pipeline.Enqueue(ctx, requests...)
			streams.Recycle(requests) // Enqueue has copied them.
		}, func(err error) {
			panicked = errors.As(err, new(*lifecycle.PanicError)) || errors.Is(err, streams.ErrExited)
			m.pipeline.ReportError(ctx, &streams.Error{Source: "From " + feed.name, Key: streams.Key{}, Err: err})
		})
		if time.Since(began) > first.Cap {
			backoff = first
		}
		if !panicked || lifecycle.Pause(ctx, backoff.Step()) != nil {
			return err
		}
	}
}
