package history

import (
	"time"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// shortest is the shortest wait that an answer names.
const shortest = time.Millisecond

// Of returns the remembered attempts of a controller for an object, oldest first. It works out what led to them,
// which takes about 50 µs for each cause and write. updated is closed when
// there may be another attempt, or when the cache shows a write.
func (h *History) Of(controller string, object types.NamespacedName) (attempts []Attempt, updated <-chan struct{}) {
	known, changes, updated := h.collect(target{controller, object})
	attempts = make([]Attempt, 0, len(known))
	for i := range known {
		var before *operators.Result
		if i > 0 {
			before = &known[i-1].result
		}
		made := changes.explain(&known[i], before)
		for j, cause := range made.Causes {
			made.Causes[j].Partial = cause.Fields != nil && h.options.IsPartial(schema.ParseGroupKind(cause.Kind))
		}
		attempts = append(attempts, made)
	}
	return attempts, updated
}

// remembered is an attempt with what only the history knows.
type remembered struct {
	result  operators.Result
	reason  string
	writers map[version]string // of the causes that another attempt wrote
}

// changesOf has the remembered changes of some objects, oldest first.
type changesOf map[streams.Key][]*change

// collect returns copies of what is remembered, so that they can be explained without the lock.
func (h *History) collect(of target) (known []remembered, changes changesOf, updated <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.updated == nil {
		h.updated = make(chan struct{})
	}
	changes = changesOf{}
	for entry := h.attempts.lines[of].first; entry != nil; entry = entry.next {
		made := &entry.value
		one := remembered{result: made.result, reason: made.reason, writers: map[version]string{}}
		for _, cause := range made.result.Causes {
			h.copyChanges(changes, cause.Key)
			if by := h.writers[version{cause.Key, cause.ResourceVersion}]; by != nil {
				one.writers[version{cause.Key, cause.ResourceVersion}] = by.result.Controller + " " + by.id()
			}
		}
		for _, write := range made.result.Writes {
			h.copyChanges(changes, write.Key)
		}
		known = append(known, one)
	}
	return known, changes, h.updated
}

func (h *History) copyChanges(to changesOf, key streams.Key) {
	if _, copied := to[key]; copied {
		return
	}
	for entry := h.changes.lines[key].first; entry != nil; entry = entry.next {
		made := entry.value // Its memory may be used again.
		to[key] = append(to[key], &made)
	}
}

func (a *attempt) id() string {
	return operators.AttemptID(a.result.Controller, a.result.NamespacedName, a.result.Started)
}

// explain returns the answer for an attempt. before is the attempt before it, or nil.
func (c changesOf) explain(of *remembered, before *operators.Result) Attempt {
	result := &of.result
	made := Attempt{
		ID:         operators.AttemptID(result.Controller, result.NamespacedName, result.Started),
		Controller: result.Controller, Namespace: result.Namespace, Name: result.Name, Attempt: result.Attempt,
		Causes: []Cause{}, Waits: c.waits(result, before), Writes: []Write{}, Calls: []Call{}, Reads: []Read{}, Unread: result.ReadsLeftOut,
		Started: result.Started.UTC(), Seconds: result.Duration.Seconds(),
		Outcome: string(result.Outcome), Error: of.reason, Again: result.RequeueAfter.Seconds(),
	}
	for _, cause := range result.Causes {
		if cause == (streams.Cause{}) {
			made.LeftOut = true
			continue
		}
		made.Causes = append(made.Causes, c.cause(cause, of.writers))
	}
	for i := range result.Writes {
		made.Writes = append(made.Writes, c.write(&result.Writes[i]))
	}
	for _, call := range result.Calls {
		made.Calls = append(made.Calls, Call{call.Method, call.Path, call.Code, call.Took.Seconds()})
	}
	for _, read := range result.Reads {
		made.Reads = append(made.Reads, Read{objectOf(read.Key, read.ResourceVersion), read.Objects})
	}
	return made
}

func objectOf(key streams.Key, version string) Object {
	return Object{Kind: key.GroupKind.String(), Namespace: key.Namespace, Name: key.Name, ResourceVersion: version}
}

func (c changesOf) cause(of streams.Cause, writers map[version]string) Cause {
	made := Cause{
		Object: objectOf(of.Key, of.ResourceVersion), Event: of.Type.String(), Received: of.Received.UTC(),
		WrittenBy: writers[version{of.Key, of.ResourceVersion}],
	}
	if change := c.causedBy(of); change != nil {
		made.Change = describe(change.of.Type)
		made.Fields, made.Managers = fieldsOf(&change.of), managersOf(&change.of)
	}
	return made
}

// causedBy returns the change that an event led to, or nil.
func (c changesOf) causedBy(of streams.Cause) *change {
	for _, change := range c[of.Key] {
		for _, cause := range change.of.Causes {
			if cause == of {
				return change
			}
		}
	}
	return nil
}

func (c changesOf) write(of *operators.Write) Write {
	made := Write{Object: objectOf(of.Key, of.ResourceVersion), Verb: of.Verb, Answered: of.Answered.UTC()}
	asked := of.Answered
	if !of.Asked.IsZero() {
		asked, made.Seconds = of.Asked, of.Answered.Sub(of.Asked).Seconds()
	}
	for _, change := range c[of.Key] {
		exact, shown := change.shows(of.ResourceVersion)
		if !shown || change.at.Before(asked) {
			continue
		}
		made.Seen = new(change.at.UTC())
		if exact {
			made.Fields = fieldsOf(&change.of)
		}
		break
	}
	return made
}

// shows reports whether a change shows a version of its object, or a later one. A deletion has no version.
func (c *change) shows(version string) (exact, shown bool) {
	if version == "" {
		return false, c.of.Type == streams.Removed || c.of.New != nil && c.of.New.GetDeletionTimestamp() != nil
	}
	for _, cause := range c.of.Causes {
		if cause.Key != c.of.Key {
			continue
		}
		if cause.ResourceVersion == version {
			return true, true
		}
		shown = shown || streams.IsOlderVersion(version, cause.ResourceVersion)
	}
	return false, shown
}

// waits returns what an attempt waited for, since its first cause was received.
func (c changesOf) waits(of, before *operators.Result) (waits []Wait) {
	waits = []Wait{}
	add := func(what string, from, to time.Time) {
		if waited := to.Sub(from); waited >= shortest {
			waits = append(waits, Wait{what, waited.Seconds()})
		}
	}
	ready := of.Started.Add(-of.Queued)
	at := ready
	for _, cause := range of.Causes {
		if change := c.causedBy(cause); change != nil {
			if at = change.at; at.After(ready) { // With an older change of the attempt the key was ready already.
				at = ready
			}
			add(WaitDebounce, cause.Received, at)
			break
		}
	}
	if before != nil {
		if ended := before.Started.Add(before.Duration); ended.After(at) && !ended.After(ready) {
			add(WaitRunning, at, ended)
			at = ended
		}
		if of.Attempt > 1 {
			add(WaitBackoff, before.Started.Add(before.Duration), ready)
			at = ready
		}
	}
	add(WaitGate, at, ready)
	add(WaitQueue, ready, of.Started)
	return waits
}
