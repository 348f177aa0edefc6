package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/page"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a page over streams that a test sends to.
type world struct {
	t       *testing.T
	events  *streams.Subject[streams.Event]
	changes *streams.Subject[streams.Change]
	results *streams.Subject[operators.Result]
	levels  *streams.Subject[cache.Level]
	states  atomic.Int64 // that were asked for
	end     func()
	page    *page.Page
	group   *lifecycle.Group
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, events: streams.NewSubject[streams.Event](0), changes: streams.NewSubject[streams.Change](0),
		results: streams.NewSubject[operators.Result](0), levels: streams.NewSubject[cache.Level](0), group: lifecycle.New(t.Context()),
	}
	ctx, end := context.WithCancel(t.Context())
	w.end = end
	made, err := page.New(page.Manager{
		Events: w.events.Stream(), Changes: w.changes.Stream(), Results: w.results.Stream(), Levels: w.levels.Stream(),
		State: func() any { return map[string]int64{"number": w.states.Add(1)} }, Context: func() context.Context { return ctx },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.page = made
	return w
}

// frame is an event of the stream, and when it was written.
type frame struct {
	name, data string
	at         time.Time
}

// browser is a ResponseWriter. While it is stuck, its writes block.
type browser struct {
	header http.Header
	leave  func()
	ended  chan struct{}

	mu       sync.Mutex
	stuck    chan struct{} // writes wait until it is closed; nil for none
	deadline time.Time
	code     int
	text     strings.Builder
	frames   []frame
}

func (b *browser) Header() http.Header { return b.header }

func (b *browser) WriteHeader(code int) { b.code = code }

func (b *browser) Flush() {}

func (b *browser) SetWriteDeadline(at time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadline = at
	return nil
}

func (b *browser) Write(text []byte) (int, error) {
	b.mu.Lock()
	stuck, deadline := b.stuck, b.deadline
	b.mu.Unlock()
	if stuck != nil {
		select {
		case <-stuck:
		case <-time.After(time.Until(deadline)):
			return 0, errors.New("the deadline has passed")
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Write(text)
	if name, data, is := strings.Cut(strings.TrimPrefix(string(text), "event: "), "\ndata: "); is {
		b.frames = append(b.frames, frame{name, data, time.Now()})
	} else {
		b.frames = append(b.frames, frame{string(text), "", time.Now()})
	}
	return len(text), nil
}

// of returns the frames of a name.
func (b *browser) of(name string) (found []frame) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, each := range b.frames {
		if each.name == name {
			found = append(found, each)
		}
	}
	return found
}

// open connects a browser.
func (w *world) open(stuck chan struct{}) *browser {
	w.t.Helper()
	ctx, leave := context.WithCancel(w.t.Context())
	made := &browser{header: http.Header{}, leave: leave, ended: make(chan struct{}), stuck: stuck, code: http.StatusOK}
	w.group.Go("browser", func(context.Context) error {
		defer close(made.ended)
		w.page.ServeHTTP(made, httptest.NewRequestWithContext(ctx, http.MethodGet, "/page/events", nil))
		return nil
	})
	synctest.Wait()
	return made
}

func (b *browser) hasEnded() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}

// close ends the manager, and waits for the browsers.
func (w *world) close() {
	w.t.Helper()
	w.end()
	if err := w.group.Wait(); err != nil {
		w.t.Error(err)
	}
	if w.isObserved() {
		w.t.Error("the streams are observed after all browsers have gone")
	}
}

func (w *world) isObserved() bool {
	return w.events.Observed() || w.changes.Observed() || w.results.Observed() || w.levels.Observed()
}

var statefulSets = schema.GroupKind{Group: "apps", Kind: "StatefulSet"}

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "stables", Name: name}
}

// send sends an event, its change and an attempt for an object.
func (w *world) send(name string) {
	key := streams.Key{GroupKind: statefulSets, NamespacedName: named(name)}
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "stables", Name: name, ResourceVersion: "7", Annotations: map[string]string{"note": "canary"}}, Data: map[string][]byte{"password": []byte("canary")}}
	received := time.Now().Add(-20 * time.Millisecond)
	w.events.Send([]streams.Event{{Type: streams.Applied, Key: key, Object: object, ResourceVersion: "7", Received: received, Coalesced: make([]streams.Cause, 2)}})
	w.changes.Send([]streams.Change{{Type: streams.Updated, Key: key, Old: object, New: object}})
	w.results.Send([]operators.Result{{
		Request: operators.Request{Controller: "riders", NamespacedName: named(name), Causes: []streams.Cause{{}, {Type: streams.Applied, Key: key, ResourceVersion: "7", Received: received}}},
		Outcome: operators.Failed, Started: time.Now(), Duration: 1500 * time.Microsecond, Queued: time.Millisecond, RequeueAfter: time.Second, Err: errors.New("no hay " + strings.Repeat("ü", 1000)),
		Writes: []operators.Write{{Verb: "patch", Key: key, ResourceVersion: "8", Answered: time.Now()}},
	}})
}

// gathered is what the browser part reads.
type gathered struct {
	Time     int64            `json:"t"`
	Events   []map[string]any `json:"events"`
	Changes  []map[string]any `json:"changes"`
	Attempts []map[string]any `json:"attempts"`
	LeftOut  map[string]int   `json:"leftOut"`
}

func decoded(t *testing.T, of frame) (made gathered) {
	t.Helper()
	if err := json.Unmarshal([]byte(of.data), &made); err != nil || !strings.HasSuffix(of.data, "\n\n") || strings.Count(of.data, "\n") != 2 {
		t.Fatalf("%q: %v", of.data, err)
	}
	return made
}

func TestTheStreamShowsTheWayOfAnEventWithoutItsObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if w.send("early"); w.isObserved() {
			t.Error("the streams are observed without a browser")
		}
		b := w.open(nil)
		w.send("pegasus")
		w.events.Send([]streams.Event{{Type: streams.ListEnd}})
		<-time.After(time.Second)
		frames := b.of("items")
		if len(frames) != 1 {
			t.Fatalf("there are %d frames of items: %v", len(frames), frames)
		}
		made := decoded(t, frames[0])
		began := time.Now().Add(-time.Second)
		event, change, attempt := made.Events[0], made.Changes[0], made.Attempts[0]
		for _, test := range []struct{ got, want any }{
			{len(made.Events), 1},
			{event["type"], "Applied"}, {event["kind"], "StatefulSet.apps"}, {event["ns"], "stables"}, {event["name"], "pegasus"}, {event["rv"], "7"}, {event["coalesced"], 2.0},
			{event["t"], float64(began.UnixMilli())}, {event["received"], float64(began.UnixMilli() - 20)},
			{change["change"], "updated"}, {change["kind"], "StatefulSet.apps"}, {change["rv"], "7"}, {change["name"], "pegasus"},
			{attempt["controller"], "riders"}, {attempt["took"], 1.5}, {attempt["queued"], 1.0}, {attempt["again"], 1000.0}, {attempt["outcome"], "error"}, {attempt["started"], float64(began.UnixMilli())},
			{attempt["error"], "no hay " + strings.Repeat("ü", 252) + "…"},
			{fmt.Sprint(attempt["causes"]), fmt.Sprintf("[map[kind:StatefulSet.apps name:pegasus received:%v rv:7]]", float64(began.UnixMilli()-20))},
			{fmt.Sprint(attempt["writes"]), fmt.Sprintf("[map[kind:StatefulSet.apps name:pegasus ns:stables rv:8 t:%v verb:patch]]", float64(began.UnixMilli()))},
			{fmt.Sprint(made.LeftOut), "map[attempts:0 changes:0 events:0]"},
		} {
			if test.got != test.want {
				t.Errorf("it shows %v, want %v", test.got, test.want)
			}
		}
		if strings.Contains(b.text.String(), "canary") {
			t.Errorf("it shows a value: %s", b.text.String())
		}
		if kind := b.header.Get("Content-Type"); kind != "text/event-stream" {
			t.Errorf("the type is %s", kind)
		}
		b.leave()
		synctest.Wait()
		if !b.hasEnded() || w.isObserved() {
			t.Error("the streams are observed after the browser has left")
		}
		w.close()
	})
}

func TestAStateComesAfterAChangeAndElseEveryFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.open(nil)
		if got := len(b.of("state")); got != 1 {
			t.Fatalf("at first there are %d states", got)
		}
		<-time.After(21 * time.Second)
		if got := len(b.of("state")); got < 5 || got > 6 {
			t.Errorf("after 21 calm seconds there are %d states", got)
		}
		if got := len(b.of(": alive\n\n")); got != 4 {
			t.Errorf("there are %d heartbeats", got)
		}
		before := len(b.of("state"))
		for range 200 {
			w.levels.Send([]cache.Level{cache.Settled})
			<-time.After(10 * time.Millisecond)
		}
		if got := len(b.of("state")) - before; got < 7 || got > 9 {
			t.Errorf("in 2 busy seconds there are %d states", got)
		}
		w.close()
		if !b.hasEnded() {
			t.Error("the stream outlasts the manager")
		}
	})
}

func TestAFloodIsSampledAndTheRestCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.open(nil)
		const objects, seconds = 50, 10
		for range seconds * 100 {
			for i := range objects {
				w.send(fmt.Sprint("horse-", i))
			}
			<-time.After(10 * time.Millisecond)
		}
		<-time.After(time.Second)
		frames := b.of("items")
		if len(frames) > 10*seconds+1 || len(frames) < 10*seconds-1 {
			t.Errorf("there are %d frames in %d seconds", len(frames), seconds)
		}
		shown, out, ways := 0, 0, 0
		for _, each := range frames {
			made := decoded(t, each)
			if got := len(made.Events) + len(made.Changes) + len(made.Attempts); got > 20 {
				t.Fatalf("a frame has %d items", got)
			}
			shown += len(made.Events) + len(made.Changes) + len(made.Attempts)
			out += made.LeftOut["events"] + made.LeftOut["changes"] + made.LeftOut["attempts"]
			if len(made.Events) > 0 && len(made.Attempts) > 0 && made.Events[len(made.Events)-1]["name"] == made.Attempts[len(made.Attempts)-1]["name"] {
				ways++
			}
		}
		if shown+out != 3*objects*100*seconds {
			t.Errorf("%d are shown and %d left out of %d", shown, out, 3*objects*100*seconds)
		}
		if ways < len(frames)*9/10 {
			t.Errorf("%d of %d frames show an event's whole way", ways, len(frames))
		}
		w.close()
	})
}

func TestABrowserThatDoesNotReadIsDroppedAndHoldsUpNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		reads, hangs := w.open(nil), w.open(make(chan struct{}))
		<-time.After(50 * time.Millisecond) // A send in the moment of a frame would be in that one or in the next.
		for range 70 {
			w.send("pegasus")
			<-time.After(100 * time.Millisecond)
		}
		if !hangs.hasEnded() {
			t.Error("a browser that has not read for 7 seconds is connected")
		}
		if got := len(reads.of("items")); got < 69 || reads.hasEnded() {
			t.Errorf("the other browser got %d frames", got)
		}
		w.close()
	})
}

func TestABrowserThatReadsSlowlyIsDroppedWhenItsFramesFillTheBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		gate := make(chan struct{})
		slow := w.open(gate)
		w.group.Go("slow", func(ctx context.Context) error {
			for range 100 { // One write in 300 ms, so each is within its deadline.
				<-time.After(300 * time.Millisecond)
				select {
				case gate <- struct{}{}:
				default:
				}
			}
			return nil
		})
		for range 200 {
			w.send("pegasus")
			<-time.After(100 * time.Millisecond)
		}
		if !slow.hasEnded() {
			t.Error("a browser that reads a third of the frames is connected after 20 seconds")
		}
		w.close()
	})
}

func TestSixteenBrowsersShareOneObservationAndMoreAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var browsers []*browser
		for range 16 {
			browsers = append(browsers, w.open(nil))
		}
		states := w.states.Load()
		more := w.open(nil)
		if !more.hasEnded() || more.code != http.StatusServiceUnavailable || !strings.Contains(more.text.String(), "close one of them") {
			t.Errorf("the 17th browser gets %d %s", more.code, more.text.String())
		}
		w.send("pegasus")
		<-time.After(260 * time.Millisecond)
		if got := w.states.Load() - states; got > 2 {
			t.Errorf("the state was asked for %d times", got)
		}
		for _, each := range browsers {
			if len(each.of("items")) != 1 || len(each.of("state")) < 2 {
				t.Errorf("a browser got %d items and %d states", len(each.of("items")), len(each.of("state")))
			}
		}
		browsers[0].leave()
		synctest.Wait()
		if again := w.open(nil); again.hasEnded() {
			t.Error("a place that is free is not given again")
		}
		w.close()
	})
}

func TestAStateThatCannotBeShownEndsTheStreamAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, state := range map[string]func() any{"a panic": func() any { panic("no") }, "no JSON": func() any { return func() {} }} {
			made, err := page.New(page.Manager{
				Events: streams.NewSubject[streams.Event](0).Stream(), Changes: streams.NewSubject[streams.Change](0).Stream(), Results: streams.NewSubject[operators.Result](0).Stream(), Levels: streams.NewSubject[cache.Level](0).Stream(),
				State: state, Context: t.Context,
			})
			if err != nil {
				t.Fatal(err)
			}
			recorder := httptest.NewRecorder()
			made.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/page/events", nil))
			if recorder.Code != 200 {
				t.Errorf("%s: %d", name, recorder.Code)
			}
		}
	})
}
