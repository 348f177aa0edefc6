package sources

import (
	"context"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultMaxStaleness suits API servers, which send a bookmark on each watch once a minute.
const DefaultMaxStaleness = 90 * time.Second

// These are parts of MaxStaleness. What was confirmed at a time has to be confirmed again before
// MaxStaleness has passed, also if that takes a request.
const (
	patiencePart = 0.75 // after which a watch that confirmed nothing is probed
	probePart    = 0.15 // the longest time that a probe may take
)

// maxAnswer bounds how long a request may go unanswered. API servers give up after 60 s themselves
// (--request-timeout). Some proxies forward the head of a watch's response only with its first
// event or bookmark, which comes after a minute.
const maxAnswer = 70 * time.Second

// maxWait bounds how long a source waits because the server asks it to.
const maxWait = 30 * time.Second

func (o *WatchOptions) patience() time.Duration {
	return time.Duration(patiencePart * float64(o.MaxStaleness))
}

func (o *WatchOptions) probeTimeout() time.Duration {
	return min(maxAnswer, time.Duration(probePart*float64(o.MaxStaleness)))
}

// freshness records how current a watcher is. The reflector and the guard of the watcher share it.
type freshness struct {
	woken chan struct{} // has a token when a watch was opened; read by guard

	mu        sync.Mutex
	open      *openWatch // nil if no watch is open
	newest    string     // the newest version of a list or a watch
	named     string     // the newest version that the server reported as current, or newest
	required  string     // the version that a bookmark has to reach after a loss or an older list; or empty
	confirmed time.Time  // when a list or a bookmark last showed that everything up to its version was emitted
	active    time.Time  // when anything last came on the open watch
	resumed   time.Time  // when the first watch after the last list was opened, or a streamed list was complete; zero before
	relist    bool       // the next watch has to be a list
	lost      bool       // Disconnected was emitted, and since then neither Connected nor a list
	listed    bool       // a list was emitted
	streaming bool       // a list is in flight on the open watch
}

// opened records that a watch is open, which begins with a list if streaming is true. A nonempty
// head is the version that the watch has to reach to be current.
func (f *freshness) opened(open *openWatch, head string, streaming bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open, f.active, f.streaming = open, time.Now(), streaming
	if !streaming && f.resumed.IsZero() {
		f.resumed = f.active
	}
	select {
	case f.woken <- struct{}{}:
	default:
	}
	if head != "" {
		f.required, f.confirmed = head, f.active
		f.name(head)
	}
}

// known returns the newest version that the server has reported so far. Unless the server's
// versions went back, its answer to a later request is no older.
func (f *freshness) known() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.named
}

// wrote records the version of a write that the server has answered.
func (f *freshness) wrote(version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.name(version)
}

// name records a version that the server reported. The caller holds the lock.
func (f *freshness) name(version string) {
	if f.named == "" || streams.IsOlderVersion(f.named, version) {
		f.named = version
	}
}

// closed records that no watch is open.
func (f *freshness) closed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = nil
}

// stop ends the open watch, if there is one.
func (f *freshness) stop() {
	f.mu.Lock()
	open := f.open
	f.open = nil
	f.mu.Unlock()
	if open != nil {
		open.end()
	}
}

// alive records that something came from the server.
func (f *freshness) alive() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = time.Now()
}

// saw records the version of an event and the time at which it came. It reports whether a bookmark
// of that version is due. An event can stand for a bookmark, because the events of a watch come in
// the order of their versions.
func (f *freshness) saw(version string, at time.Time, patience time.Duration) (mark bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = at
	if streams.IsOlderVersion(f.newest, version) || f.newest == "" {
		if f.named == f.newest {
			f.named = version
		} else {
			f.name(version)
		}
		f.newest = version
	}
	switch {
	case !f.listed || f.lost:
		return false
	case f.required != "":
		mark = !streams.IsOlderVersion(version, f.required)
	default:
		mark = patience > 0 && at.Sub(f.confirmed) > patience/2 // The server sends no bookmarks, or few.
	}
	if mark = mark && version != "" && version == f.newest; mark {
		f.mark(version, at)
	}
	return mark
}

// mark records that everything up to a version was emitted. A version before the required one confirms nothing: a
// server whose versions went back may never reach that one. Without a confirmation, the watch is probed.
func (f *freshness) mark(version string, at time.Time) {
	if f.required != "" && streams.IsOlderVersion(version, f.required) {
		return
	}
	f.confirmed, f.required = at, ""
}

// bookmarked records a bookmark of the server. It returns false if an earlier version was newer, so
// the server's versions went back. A relist is then due.
func (f *freshness) bookmarked(version string, at time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = at
	if f.listed && streams.IsOlderVersion(version, f.newest) {
		f.relist = true
		return false
	}
	f.newest = version
	f.name(version)
	f.mark(version, at)
	return true
}

// replaced records a list requested at the time asked, when known was the newest version and head
// the current one. It reports whether the server's versions went back.
func (f *freshness) replaced(version, head, known string, asked time.Time) (reset bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if head == "" {
		head = version
	}
	if reset = f.listed && streams.IsOlderVersion(head, known); reset {
		f.newest, f.named = "", ""
	}
	if streams.IsOlderVersion(f.newest, version) || f.newest == "" {
		f.newest = version
	}
	f.name(head)
	f.resumed = time.Time{}
	if f.streaming { // The watch of the list goes on.
		f.resumed = time.Now()
	}
	f.required, f.confirmed, f.active, f.streaming = "", asked, time.Now(), false
	if streams.IsOlderVersion(version, head) {
		f.required = head
	}
	f.listed, f.lost, f.relist = true, false, false
	return reset
}

// lose records that the server is lost. It reports whether that is new.
func (f *freshness) lose() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	news := f.listed && !f.lost
	f.lost = f.lost || news
	return news
}

// isListed reports whether a list was emitted.
func (f *freshness) isListed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listed
}

// isLost reports whether the server is lost.
func (f *freshness) isLost() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// found records that the server is back, with head as its current version. It reports whether
// everything up to head was emitted before the loss.
func (f *freshness) found(head string, at time.Time) (all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = false
	if all = head != "" && f.newest == head; all {
		f.mark(head, at)
	}
	return all
}

// again makes a list take the place of the open watch, and of the next one.
func (f *freshness) again() {
	f.mu.Lock()
	f.relist = true
	f.mu.Unlock()
	f.stop()
}

// takeRelist reports whether a list has to take the place of the next watch, and clears that flag.
func (f *freshness) takeRelist() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := f.relist
	f.relist = false
	return taken
}

// due returns the watch that has to be probed now, or nil and how long to wait.
func (f *freshness) due(patience time.Duration) (open *openWatch, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		return nil, patience
	}
	since := f.confirmed
	switch {
	case f.streaming:
		since = f.active
	case f.resumed.After(since): // The list took long. The server's first bookmark is due a minute after it.
		since = f.resumed
	}
	if wait = patience - time.Since(since); wait > 0 {
		return nil, wait
	}
	return f.open, 0
}

// guard probes each watch that has confirmed nothing for long, until ctx ends.
func (w *watcher) guard(ctx context.Context) error {
	patience := w.options.patience()
	if patience <= 0 {
		return nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for ctx.Err() == nil {
		open, wait := w.fresh.due(patience)
		if open != nil {
			w.probe(ctx, open)
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-w.fresh.woken:
		case <-ctx.Done():
		}
	}
	return nil
}

// probe asks the server which version is current. If everything up to that version was emitted,
// probe confirms it. Otherwise the watch ends and a list follows: a watch may be silent because
// nothing happened, or because it is dead.
func (w *watcher) probe(ctx context.Context, open *openWatch) {
	w.status.Probes.Add(1)
	known := w.fresh.known()
	head, err := w.askHead(ctx, w.options.probeTimeout())
	if err != nil {
		_ = w.fail(ctx, "watch", err)
		return
	}
	w.emitting.Lock()
	defer w.emitting.Unlock()
	switch now := time.Now(); w.fresh.probed(open, head, known, now, w.options.patience()) {
	case isConfirmed:
		w.queue.Put(ctx, w.bookmark(head, now))
	case isBehind:
		w.status.set(w, Listing) // The state is Listing from here until the list is complete.
		w.fresh.stop()
	}
}

// finding is the result of a probe.
type finding uint8

const (
	isAnswered  finding = iota // the watch was confirmed meanwhile, or another one is open
	isConfirmed                // everything up to the server's version was emitted
	isBehind                   // the server has another version; a list follows
)

// probed records the answer to a probe of a watch. When the probe was sent, known was the newest
// version.
func (f *freshness) probed(open *openWatch, head, known string, now time.Time, patience time.Duration) finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.open != open || !f.streaming && now.Sub(f.confirmed) < patience:
		return isAnswered
	case f.listed && !f.lost && head != "" && !streams.IsOlderVersion(f.newest, head) && !streams.IsOlderVersion(head, known):
		f.mark(head, now)
		return isConfirmed
	}
	f.relist = true
	return isBehind
}

// askHead requests the version that is current.
func (w *watcher) askHead(ctx context.Context, timeout time.Duration) (string, error) {
	ctx, cancel := w.within(ctx, timeout)
	defer cancel()
	list, err := w.get(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	return versionOf(list)
}
