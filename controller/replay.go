package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
)

// Setup creates a manager with its controllers, for a configuration and options that a [Replay] gives. It must use
// both: the configuration leads to the recording, and not to an API server. The options have the UserAgent of the
// recording. A Recording that Setup adds to the options is ignored.
type Setup func(config *rest.Config, options Options) (*Manager, error)

// Replay gives the reconcilers of a manager what a recording holds: the events in the cache, the requests to reconcile,
// and the answers of the API server. Each comes at its position and its time. Replay sends nothing to any
// server. It returns where the reconcilers decided otherwise than in the recording.
//
// The time is virtual: Replay must be called in a bubble of [testing/synctest], and wait must be [synctest.Wait].
// Package controller/replaytest does that. In other words, an hour takes a second or two.
//
// A reconciler must be a function of what it reads from its client, of the time, and of what it remembers. A recording
// that begins in the middle cannot restore what it remembered. The attempts of one controller that share such a state
// may race as they did when they were recorded.
func Replay(ctx context.Context, of *recording.Recording, setup Setup, wait func()) (*Replayed, error) {
	r := newReplay(wait)
	r.result.Cut, r.userAgent = of.IsCut, of.UserAgent
	r.collect(of.Records)
	first, _ := of.Span()
	r.until(first)
	err := r.within(ctx, setup, func() error { return r.playAll(of.Records) })
	return &r.result, err
}

// Shadow gives the reconcilers of a manager what another operator records at the same time, as [Replay] does. It returns
// when batches is closed. It calls each with every attempt that was compared: with nil, or with how it differs.
// batches must be made outside of the bubble, so that virtual time waits for it.
func Shadow(ctx context.Context, batches <-chan recording.Batch, setup Setup, wait func(), each func(Made, *Difference)) error {
	r := newReplay(wait)
	r.each = each
	batch, open := <-batches
	for open && len(batch.Ready) == 0 { // What the API server serves arrives first, and setup may ask for it.
		r.collect(batch.Arrived)
		batch, open = <-batches
	}
	if !open {
		return nil
	}
	r.collect(batch.Arrived)
	if batch.Header != nil {
		r.userAgent = batch.Header.UserAgent
	}
	r.until(batch.Ready[0].Time())
	return r.within(ctx, setup, func() error {
		for {
			if err := r.playAll(batch.Ready); err != nil {
				return err
			}
			if batch, open = <-batches; !open {
				return nil
			}
			r.collect(batch.Arrived)
		}
	})
}

func newReplay(wait func()) *replay {
	return &replay{wait: wait, attempts: map[uint64]*replayedAttempt{}, objects: map[streams.Key][]*recording.Object{}, served: map[string]*recording.Served{}, latest: map[string]latest{}}
}

// within sets up the manager, calls play, and ends what goes on after it.
func (r *replay) within(ctx context.Context, setup Setup, play func() error) error {
	config := &rest.Config{Host: "http://recording", Transport: replayTransport{r}, QPS: -1} // Answers come at their times, so nothing else may wait.
	made, err := setup(config, Options{
		Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), UserAgent: r.userAgent,
	})
	if err != nil {
		return fmt.Errorf("replay: setting up the controllers: %w", err)
	}
	r.manager, r.codec = made, serializer.NewCodecFactory(made.scheme).UniversalDeserializer()
	made.tape = &tape{replay: r}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, managerKey{}, made))
	defer cancel()
	r.group = lifecycle.New(ctx)
	err = play()
	for _, attempt := range r.attempts {
		if attempt.begun {
			r.result.Skipped++ // The recording ends within it.
		}
	}
	cancel()
	if ended := r.group.Wait(); err == nil && ended != nil {
		err = fmt.Errorf("replay: %w", ended)
	}
	return err
}

// playAll plays records, each at its time.
func (r *replay) playAll(records []*recording.Record) error {
	for _, record := range records {
		if record.Served == nil { // Otherwise it was needed from the start, and sorting has put it there: see collect.
			r.until(record.Time())
		}
		if err := r.play(record); err != nil {
			return err
		}
	}
	return nil
}

// replay is one run of Replay. One goroutine plays the records. Attempts run in goroutines of their own, and wait for
// it at each request and at some reads.
type replay struct {
	manager *Manager
	codec   runtime.Decoder
	wait    func()
	group   *lifecycle.Group
	result  Replayed
	each    func(Made, *Difference) // of Shadow; nil otherwise

	userAgent string // of the program that was recorded; a field manager may be derived from it

	attempts map[uint64]*replayedAttempt
	objects  map[streams.Key][]*recording.Object // versions that no event has applied yet, oldest first
	served   map[string]*recording.Served        // what the API server serves, by path

	mu     sync.Mutex
	latest map[string]latest // the objects in answers, by the path of the object
}

// replayedAttempt is an attempt of the recording that is made again.
type replayedAttempt struct {
	begun  bool // only the goroutine of Replay uses it
	start  *recording.Start
	cancel func()
	ended  chan struct{}
	result operators.Result // once ended is closed

	mu          sync.Mutex
	reads       int
	read        []uint64              // hashes of the versions of the objects of each read that was done
	gates       map[int]chan struct{} // of the reads that wait for a position
	exchanges   []*replayedExchange   // as they were recorded
	requests    []string              // that were sent
	differences []string
}

// replayedExchange is a request of the recording.
type replayedExchange struct {
	*recording.Exchange
	sent bool          // also by the attempt that is made again
	due  chan struct{} // closed when its answer is due
}

type replayedKey struct{}

// collect sorts records by their attempts, and collects what is needed before its position.
func (r *replay) collect(records []*recording.Record) {
	for _, record := range records {
		if of := record.Served; of != nil && (isAggregated(of) || !isAggregated(r.served[of.Path])) { // The aggregated form says more.
			r.served[of.Path] = of
		}
		number := record.Attempt()
		if number == 0 {
			continue
		}
		attempt := r.attempts[number]
		if attempt == nil {
			attempt = &replayedAttempt{gates: map[int]chan struct{}{}, ended: make(chan struct{})}
			r.attempts[number] = attempt
		}
		switch {
		case record.Start != nil:
			attempt.start = record.Start
		case record.Read != nil:
			attempt.gates[record.Read.Number] = make(chan struct{})
		case record.Exchange != nil:
			attempt.exchanges = append(attempt.exchanges, &replayedExchange{Exchange: record.Exchange, due: make(chan struct{})})
		}
	}
}

// until waits for a time of the recording.
func (r *replay) until(at time.Time) {
	if left := time.Until(at); left > 0 {
		<-time.After(left)
	}
}

// play plays a record, and waits until the attempts that it lets go on wait again.
func (r *replay) play(record *recording.Record) error {
	switch {
	case record.Object != nil:
		key := record.Object.Key
		r.objects[key] = append(r.objects[key], record.Object)
		return nil
	case record.Watch != nil:
		r.watch(record.Watch)
		return nil
	case len(record.Events) > 0:
		return r.apply(record.Events)
	case record.Own != nil:
		return r.own(record.Own)
	}
	attempt := r.attempts[record.Attempt()]
	switch {
	case attempt == nil:
		return nil
	case record.Start != nil && !attempt.begun: // A damaged recording may have it twice.
		r.begin(attempt)
	case !attempt.begun: // It began before the recording, or its controller is another one.
		if record.End != nil {
			delete(r.attempts, record.End.Attempt)
		}
		return nil
	case record.Read != nil:
		gate := attempt.gates[record.Read.Number]
		select {
		case <-gate: // A damaged recording has the read twice.
		default:
			close(gate)
		}
	case record.Exchange != nil:
		i := slices.IndexFunc(attempt.exchanges, func(known *replayedExchange) bool { return known.Exchange == record.Exchange })
		close(attempt.exchanges[i].due)
	case record.End != nil:
		r.conclude(attempt, record.End)
		return nil
	}
	r.wait()
	return nil
}

// watch begins or ends the watch of a kind on demand.
func (r *replay) watch(of *recording.Watch) {
	r.manager.changing.Lock()
	defer r.manager.changing.Unlock()
	for _, watched := range r.manager.present.Load().watches {
		switch {
		case watched.kind.GroupKind() != of.Kind:
		case of.Ended:
			r.manager.endDemand(watched)
		case !watched.demand.met:
			watched.demand.met, watched.stop = true, func() {}
			r.manager.acquire(watched, r.manager.cache.AddOptional)
		}
	}
}

// apply applies a batch of events to the cache.
func (r *replay) apply(recorded []recording.Event) error {
	events := make([]streams.Event, 0, len(recorded))
	for i := range recorded {
		of := &recorded[i]
		event := streams.Event{
			Type: of.Type, Reset: of.Reset, Source: of.Source, Key: of.Key, ResourceVersion: of.ResourceVersion,
			Received: time.Unix(0, of.Received), Coalesced: of.Coalesced,
		}
		if of.HasObject {
			object, err := r.take(of)
			if err != nil {
				return err
			}
			if object == nil {
				continue // No controller watches the kind.
			}
			event.Object = object
		}
		events = append(events, event)
	}
	streams.Recycle(r.manager.cache.Apply(events))
	return nil
}

// take returns the object of an event in the form that the cache keeps, or nil if the manager does not watch its kind. It
// forgets the versions before it.
func (r *replay) take(event *recording.Event) (streams.Object, error) {
	versions := r.objects[event.Key]
	at := slices.IndexFunc(versions, func(known *recording.Object) bool { return known.ResourceVersion == event.ResourceVersion })
	if at < 0 {
		return nil, fmt.Errorf("replay: the recording lacks %s at version %s, which an event brought", event.Key, event.ResourceVersion)
	}
	found := versions[at]
	r.objects[event.Key] = versions[at:] // A list may bring the same version again.
	watched := r.watchedKind(event.Key.GroupKind)
	if watched == nil {
		return nil, nil
	}
	return r.asWatched(watched, found)
}

// decodeObject decodes the body of a record.
func decodeObject(of *recording.Object, into streams.Object) error {
	if made, isMap := into.(*unstructured.Unstructured); isMap {
		return utiljson.Unmarshal(of.Body, &made.Object) // Its own decoder needs the kind, which events of a watch leave out.
	}
	if !of.IsProto {
		return json.Unmarshal(of.Body, into)
	}
	proto, has := into.(interface{ Unmarshal(encoded []byte) error })
	if !has {
		return fmt.Errorf("it was recorded in protobuf, and a %v has no such form", reflect.TypeOf(into))
	}
	return proto.Unmarshal(of.Body)
}

// begin begins an attempt.
func (r *replay) begin(attempt *replayedAttempt) {
	member := r.manager.present.Load().members[attempt.start.Request.Controller]
	if member == nil {
		r.result.Skipped++
		return
	}
	attempt.begun = true
	controller := member.controller
	controller.Timeout = cmp.Or(controller.Timeout, r.manager.options.Timeout)
	controller.Reconcile = func(ctx context.Context, request operators.Request) (time.Duration, error) {
		ctx = context.WithValue(ctx, replayedKey{}, attempt)
		if attempt.start.Stalled != nil {
			ctx = context.WithValue(ctx, stalledKey{}, attempt.start.Stalled)
		}
		return member.reconcile(ctx, request)
	}
	started := time.Now()
	if attempt.start.Started != 0 {
		started = time.Unix(0, attempt.start.Started)
	}
	ctx, cancel := context.WithCancel(r.group.Context())
	attempt.cancel = cancel
	r.group.Go("attempt", func(context.Context) error {
		defer close(attempt.ended)
		defer cancel()
		attempt.result = operators.MakeAttempt(ctx, controller, attempt.start.Request, started)
		return nil
	})
}

// read waits until an attempt may read the cache, reads it, and notes what it has read.
func (r *replay) read(ctx context.Context, read func() []streams.Object) {
	attempt, _ := ctx.Value(replayedKey{}).(*replayedAttempt)
	if attempt == nil {
		read()
		return
	}
	attempt.mu.Lock()
	attempt.reads++
	gate := attempt.gates[attempt.reads]
	attempt.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	sum := fnv.New64a()
	for _, object := range read() {
		_, _ = io.WriteString(sum, object.GetNamespace()+"/"+object.GetName()+"@"+object.GetResourceVersion()+" ") // A hash never fails.
	}
	attempt.mu.Lock()
	defer attempt.mu.Unlock()
	attempt.read = append(attempt.read, sum.Sum64())
}

var _ http.RoundTripper = replayTransport{}
