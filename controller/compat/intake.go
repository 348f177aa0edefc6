package compat

import (
	"context"
	"sync"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// intake is the queue of a controller of controller-runtime whose requests go to Bellerophon. A request
// that is added during a call of collect is a result of that call. The others, such as delayed ones, wait
// in the queue that intake embeds, and follow as a stream.
type intake struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	calls sync.Mutex // held during collect
	mu    sync.Mutex
	open  bool // a call of collect is running
	names []types.NamespacedName
	asked func() // called when a worker of the controller asks for a request
	ended chan struct{}
	end   sync.Once
}

func newIntake(name string, limiter workqueue.TypedRateLimiter[reconcile.Request], asked func()) *intake {
	return &intake{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name}),
		asked:                      asked,
		ended:                      make(chan struct{}),
	}
}

// collect calls a function, and returns the requests that were added meanwhile.
func (q *intake) collect(call func()) []types.NamespacedName {
	q.calls.Lock()
	defer q.calls.Unlock()
	q.mu.Lock()
	q.open = true
	q.mu.Unlock()
	defer q.take() // Also if the call panics: its change comes again.
	call()
	return q.take()
}

// take ends a collection.
func (q *intake) take() []types.NamespacedName {
	q.mu.Lock()
	defer q.mu.Unlock()
	names := q.names
	q.open, q.names = false, nil
	return names
}

// Add adds a request.
func (q *intake) Add(request reconcile.Request) {
	q.mu.Lock()
	open := q.open
	if open {
		q.names = append(q.names, request.NamespacedName)
	}
	q.mu.Unlock()
	if !open {
		q.TypedRateLimitingInterface.Add(request)
	}
}

// Get waits until the queue is shut down. The controller's own workers call it, and get no work.
func (q *intake) Get() (request reconcile.Request, shutdown bool) {
	q.asked()
	<-q.ended
	return request, true
}

// ShutDown lets the controller's own workers return.
func (q *intake) ShutDown() {
	q.TypedRateLimitingInterface.ShutDown()
	q.end.Do(func() { close(q.ended) })
}

// others returns the requests that belong to no call of collect.
func (q *intake) others() streams.Stream[types.NamespacedName] {
	return streams.Create(func(ctx context.Context, out streams.Sink[types.NamespacedName]) {
		defer context.AfterFunc(ctx, q.TypedRateLimitingInterface.ShutDown)()
		for {
			request, shutdown := q.TypedRateLimitingInterface.Get()
			if shutdown {
				return
			}
			q.Done(request)
			if !out.Send([]types.NamespacedName{request.NamespacedName}) {
				return
			}
		}
	})
}
