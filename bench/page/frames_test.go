package page

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// frame is the time that 60 frames a second leave for one.
const frame = 16.0 // milliseconds

// newBusyWorld starts an operator with 5,000 objects. In each second, 500 of them change.
func newBusyWorld(t *testing.T) (address string) {
	t.Helper()
	const objects, rate = 5000, 500
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	object := func(i int) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("horse-%d", i%objects)}, Data: map[string]string{"version": fmt.Sprint(i)}}
	}
	for i := range objects {
		if err := server.Create(object(i)); err != nil {
			t.Fatal(err)
		}
	}
	listens := make(chan net.Addr, 1)
	manager, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{
		Logger: slog.New(slog.DiscardHandler), MetricsAddress: "127.0.0.1:0", OnListen: func(_ string, address net.Addr) { listens <- address },
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(ctx context.Context, request operators.Request) (time.Duration, error) {
		_, err := controller.Get[*corev1.ConfigMap](ctx, manager.Client(), request.NamespacedName)
		return 0, err
	}
	if err := manager.Add("stables", read, controller.For(&corev1.ConfigMap{})); err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(context.Background())
	group.Go("manager", manager.Run)
	t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	if err := manager.Cache().Wait(t.Context(), cache.Settled); err != nil {
		t.Fatal(err)
	}
	group.Go("changes", func(ctx context.Context) error {
		ticks := time.NewTicker(20 * time.Millisecond)
		defer ticks.Stop()
		for i := 0; ; {
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return nil
			}
			for range rate / 50 {
				if err := server.Update(object(i)); err != nil {
					return err
				}
				i++
			}
		}
	})
	return (<-listens).String()
}

// traced is an event of a trace of Chromium. Its times are in microseconds.
type traced struct {
	Name    string  `json:"name"`
	Process int     `json:"pid"`
	Thread  int     `json:"tid"`
	At      float64 `json:"ts"`
	CPU     float64 `json:"tdur"` // of the thread, so that other processes of the machine do not count
	Took    float64 `json:"dur"`
}

// trace traces what a tab does.
func (o *opened) trace(during func()) (events []traced) {
	o.t.Helper()
	var mu sync.Mutex
	complete := make(chan struct{})
	if err := chromedp.Listen(o.tab, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch event := event.(type) {
		case *tracing.EventDataCollected:
			for _, value := range event.Value {
				var one traced
				if json.Unmarshal(value, &one) == nil {
					events = append(events, one)
				}
			}
		case *tracing.EventTracingComplete:
			close(complete)
		}
	}); err != nil {
		o.t.Fatal(err)
	}
	config := tracing.StartParams{TransferMode: tracing.StartTransferModeReportEvents, TraceConfig: &tracing.TraceConfig{IncludedCategories: []string{"devtools.timeline", "disabled-by-default-devtools.timeline"}}}
	if _, err := chromedp.Call(o.tab, tracing.Start, config); err != nil {
		o.t.Fatal(err)
	}
	during()
	if _, err := chromedp.Call(o.tab, tracing.End, cdp.Empty{}); err != nil {
		o.t.Fatal(err)
	}
	select {
	case <-complete:
	case <-time.After(time.Minute):
		o.t.Fatal("the trace does not end")
	}
	mu.Lock()
	defer mu.Unlock()
	return events
}

// workOf returns the CPU time of the main thread for each frame, in milliseconds: scripts, style, layout, paint, messages.
func workOf(events []traced) (frames []float64) {
	slices.SortFunc(events, func(a, b traced) int {
		if a.At < b.At {
			return -1
		}
		return 1
	})
	type thread struct{ process, thread int }
	drawn := map[thread]int{}
	var main thread
	for _, event := range events {
		if event.Name == "FireAnimationFrame" {
			of := thread{event.Process, event.Thread}
			if drawn[of]++; drawn[of] > drawn[main] {
				main = of
			}
		}
	}
	work, last, begun, fired := 0.0, 0.0, false, false
	for _, event := range events {
		if (thread{event.Process, event.Thread}) != main {
			continue
		}
		switch event.Name {
		case "RunTask":
			work, last, fired = work+event.CPU/1000, event.CPU/1000, false
		case "FireAnimationFrame": // It is within the task that was counted last. Each callback has one.
			if fired {
				continue
			}
			if fired = true; begun {
				frames = append(frames, work-last)
			}
			work, begun = last, true
		}
	}
	return frames
}

func TestTheMainThreadHasTimeFor60FramesWith5000ObjectsAnd500EventsASecond(t *testing.T) {
	address := newBusyWorld(t)
	openURL(t, "http://"+address+"/page/", func(o *opened) {
		o.until("the connection", `document.getElementById("connection").textContent === "connected"`)
		o.until("the items of some seconds", `(() => {
			const match = /In view: (\S+) events/.exec(document.getElementById("count").textContent);
			return match && Number(match[1].replaceAll(",", "")) > 100;
		})()`)
		o.until("all objects", `document.getElementById("found").textContent.includes("of 5,000 objects shown")`)
		var intervals []float64
		events := o.trace(func() {
			intervals = eval[[]float64](o, `new Promise((done) => {
				const times = [];
				const next = (at) => times.push(at) && at - times[0] < 4000 ? requestAnimationFrame(next) : done(times.slice(1).map((of, i) => of - times[i]));
				requestAnimationFrame(next);
			})`)
		})
		work := workOf(events)
		slices.Sort(intervals)
		slices.Sort(work)
		at := func(list []float64, part float64) float64 { return list[int(part*float64(len(list)-1))] }
		if len(work) < 60 || len(intervals) < 60 {
			t.Fatalf("in 4 s it draws %d frames, and the trace has %d", len(intervals)+1, len(work))
		}
		t.Logf("%d frames in 4 s: intervals of %.1f ms in the median and %.1f ms at the 95th percentile; work of the main thread for a frame %.1f ms, %.1f ms at the 95th percentile, %.1f ms at most",
			len(intervals)+1, at(intervals, 0.5), at(intervals, 0.95), at(work, 0.5), at(work, 0.95), at(work, 1))
		if got := at(work, 0.95); got > frame || got == 0 {
			t.Errorf("at the 95th percentile, a frame takes %.1f ms of the main thread; 60 frames a second leave %v ms", got, frame)
		}
	})
}
