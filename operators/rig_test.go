package operators_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

var errFailed = errors.New("failed")

// request parses object or controller/object. Its causes have the given versions.
func request(text string, versions ...string) operators.Request {
	controller, name, found := strings.Cut(text, "/")
	if !found {
		controller, name = "pods", text
	}
	made := operators.Request{Controller: controller, NamespacedName: podName(name), Received: time.Now()}
	for _, version := range versions {
		made.Causes = append(made.Causes, streams.Cause{
			Type: streams.Applied, Key: podKey(name), ResourceVersion: version, Received: made.Received,
		})
	}
	return made
}

// resulted formats a result as object:outcome#attempt.
func resulted(result operators.Result) string {
	return fmt.Sprintf("%s:%s#%d", result.Name, result.Outcome, result.Attempt)
}

// rig is a Reconcile with one controller, pods, to which a test sends requests.
type rig struct {
	t           *testing.T
	in          feed[operators.Request]
	controllers *operators.Controllers
	flow        *operators.StageStats
	started     time.Time
	attempts    *log // objects, and when their attempts started
	results     []operators.Result
	errs        []error
	end         context.CancelFunc
	reader      *lifecycle.Group
}

func newRig(t *testing.T, reconcile operators.Reconciler, options operators.ReconcileOptions) *rig {
	return newRigOf(t, map[string]operators.Controller{"pods": {Reconcile: reconcile}}, options)
}

func newRigOf(t *testing.T, controllers map[string]operators.Controller, options operators.ReconcileOptions) *rig {
	t.Helper()
	b := &rig{t: t, in: newFeed[operators.Request](), started: time.Now(), attempts: newLog()}
	b.controllers = operators.NewControllers(nil)
	for name, controller := range controllers {
		b.controllers.Set(name, b.noting(controller))
	}
	if options.Stats == nil {
		options.Stats = &operators.StageStats{}
	}
	b.flow = options.Stats
	options.Backoff.Jitter = -1
	stream := operators.Reconcile(b.in.stream(), b.controllers, options)
	ctx, end := context.WithCancel(t.Context())
	b.end = end
	b.reader = parallel(t, func(context.Context) {
		err := streams.ForEach(ctx, stream,
			func(results []operators.Result) { b.results = append(b.results, results...) },
			func(err error) { b.errs = append(b.errs, err) })
		if err != nil {
			t.Error(err)
		}
	})
	return b
}

// noting returns a controller whose attempts the rig logs.
func (b *rig) noting(controller operators.Controller) operators.Controller {
	reconcile := controller.Reconcile
	controller.Reconcile = func(ctx context.Context, request operators.Request) (time.Duration, error) {
		b.attempts.add(request.Name)
		return reconcile(ctx, request)
	}
	return controller
}

// only returns Controllers with one controller, pods.
func only(reconcile operators.Reconciler) *operators.Controllers {
	return operators.NewControllers(map[string]operators.Controller{"pods": {Reconcile: reconcile}})
}

// stop ends the context and waits for the end of the stream.
func (b *rig) stop() {
	b.end()
	_ = b.reader.Wait()
	b.wantFlow("at the end", 0, 0)
}

// drain ends the input and waits for the end of the stream.
func (b *rig) drain() {
	close(b.in)
	_ = b.reader.Wait()
	b.end()
	b.wantFlow("at the end", 0, 0)
}

func (b *rig) wantAttempts(want string) {
	b.t.Helper()
	if got := b.attempts.String(); got != want {
		b.t.Errorf("attempts\n%s, want\n%s", got, want)
	}
}

func (b *rig) wantResults(want ...string) {
	b.t.Helper()
	var got []string
	for _, result := range b.results {
		got = append(got, resulted(result))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		b.t.Errorf("results\n%v, want\n%v", got, want)
	}
}

func (b *rig) wantFlow(when string, waiting, running int64) {
	b.t.Helper()
	if b.flow.Waiting.Load() != waiting || b.flow.Running.Load() != running || b.flow.Busy() != (waiting+running > 0) {
		b.t.Errorf("%s %d wait and %d run, want %d and %d", when, b.flow.Waiting.Load(), b.flow.Running.Load(), waiting, running)
	}
}

// takes returns a reconciler that takes some time.
func takes(d time.Duration) operators.Reconciler {
	return func(ctx context.Context, _ operators.Request) (time.Duration, error) {
		if !wait(ctx, d) {
			return 0, ctx.Err()
		}
		return 0, nil
	}
}

// one has a single worker, so that the order is certain.
var one = operators.ReconcileOptions{Workers: 1}

// taken formats an item of results.
func taken(item rxgo.Item) string {
	if item.E != nil {
		return "!" + item.E.Error()
	}
	var all []string
	for _, result := range item.V.([]operators.Result) {
		all = append(all, resulted(result))
	}
	return strings.Join(all, " ")
}

// described returns writes without their times.
func described(writes []operators.Write) string {
	said := make([]string, 0, len(writes))
	for _, write := range writes {
		said = append(said, fmt.Sprint(write.Verb, " ", write.Key, " ", write.ResourceVersion, " ", write.Exclusive))
	}
	return "[{" + strings.Join(said, "} {") + "}]"
}
