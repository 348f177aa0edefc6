package page

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// explained is how many attempts of an object an answer has.
const explained = 16

// lookBack is how far an answer looks back at first. It reads the whole recording if that has too few attempts.
const lookBack = 10 * time.Minute

// why answers what led to the last attempts for an object before a time.
func (p *Past) why(ctx context.Context, asked question) (any, error) {
	kind, name, isNamed := strings.Cut(asked.Get("object"), "/")
	if asked.at.IsZero() || !isNamed {
		return nil, &badQuestion{http.StatusBadRequest, fmt.Sprintf("object is %.80q, and at is %.40q; give KIND/NAME and milliseconds since 1970", asked.Get("object"), asked.Get("at"))}
	}
	object := types.NamespacedName{Namespace: asked.Get("namespace"), Name: name}
	var found *looking
	for _, from := range []time.Time{asked.at.Add(-lookBack), {}} {
		found = &looking{object: object, kind: schema.ParseGroupKind(kind), at: asked.at, from: from, attempts: newAttempts(p.read)}
		if err := recording.Scan(ctx, p.path, from, asked.at, found.take); err != nil {
			return nil, err
		}
		if len(found.ended) == explained {
			break
		}
	}
	if len(found.controllers) == 0 {
		return nil, &badQuestion{http.StatusNotFound, fmt.Sprintf("no controller reconciles %.80s", kind)}
	}
	return p.explain(ctx, found)
}

// looking looks for the attempts for an object.
type looking struct {
	object      types.NamespacedName
	kind        schema.GroupKind
	at, from    time.Time
	controllers []recordedMember // that reconcile the kind

	attempts *attempts
	ended    []*begun // the last ones
}

func (l *looking) take(record *recording.Record) error {
	if record.Header != nil {
		l.controllers = nil
		for _, member := range membersOf(*record.Header) {
			if strings.EqualFold(member.Kind, l.kind.String()) {
				l.controllers = append(l.controllers, member)
			}
		}
		return nil
	}
	if record.Time().After(l.at) {
		return nil
	}
	if ended := l.attempts.take(record); ended != nil && l.concerns(ended) {
		if l.ended = append(l.ended, ended); len(l.ended) > explained {
			l.ended = l.ended[1:]
		}
	}
	return nil
}

func (l *looking) concerns(of *begun) bool {
	if of.result.NamespacedName != l.object {
		return false
	}
	for _, member := range l.controllers {
		if member.Name == of.result.Controller {
			return true
		}
	}
	return false
}

// explain gives a history the attempts, and the changes that they name, and asks it.
func (p *Past) explain(ctx context.Context, found *looking) (any, error) {
	remembers, err := history.New(history.Options{Bytes: 64 << 20})
	if err != nil {
		return nil, err
	}
	of := retelling{looking: found, read: p.read, history: remembers, attempts: newAttempts(p.read), known: map[string]*begun{}, bodies: map[streams.Key][]*recording.Object{}, before: map[streams.Key]*recording.Object{}}
	of.want()
	if err := recording.Scan(ctx, p.path, found.from, found.at, of.take); err != nil {
		return nil, err
	}
	answer := history.Answer{Time: found.at.UTC()}
	for _, member := range found.controllers {
		made := history.Controller{Name: member.Name, Kind: member.Kind}
		made.Attempts, _ = remembers.Of(member.Name, found.object)
		for i := range made.Attempts {
			of.rename(&made.Attempts[i])
		}
		for _, running := range found.attempts.open {
			if running.result.Controller == member.Name && running.result.NamespacedName == found.object {
				made.RunningSince = new(running.result.Started.UTC())
			}
		}
		answer.Controllers = append(answer.Controllers, made)
	}
	return answer, nil
}

// retelling gives a history what a recording has of some attempts.
type retelling struct {
	*looking
	read     decoder
	history  *history.History
	attempts *attempts
	known    map[string]*begun // by the IDs of this process

	wanted map[versionOf]bool // versions that causes and writes name
	keys   map[streams.Key]bool
	bodies map[streams.Key][]*recording.Object // that an event may still apply, oldest first
	before map[streams.Key]*recording.Object
}

type versionOf struct {
	streams.Key
	version string
}

func (r *retelling) want() {
	r.wanted, r.keys = map[versionOf]bool{}, map[streams.Key]bool{}
	for _, of := range r.ended {
		for _, cause := range of.result.Causes {
			r.wanted[versionOf{cause.Key, cause.ResourceVersion}], r.keys[cause.Key] = true, true
		}
		for _, write := range of.result.Writes {
			r.wanted[versionOf{write.Key, write.ResourceVersion}], r.keys[write.Key] = true, true
		}
	}
}

func (r *retelling) take(record *recording.Record) error {
	if record.Header != nil || record.Time().After(r.at) {
		return nil
	}
	if record.Object != nil && r.keys[record.Object.Key] {
		r.bodies[record.Object.Key] = append(r.bodies[record.Object.Key], record.Object)
	}
	for i := range record.Events {
		if each := &record.Events[i]; r.keys[each.Key] {
			r.change(each, record.Time())
		}
	}
	ended := r.attempts.take(record)
	if ended == nil {
		return nil
	}
	if r.concerns(ended) || r.wroteACause(ended) {
		r.known[operators.AttemptID(ended.result.Controller, ended.result.NamespacedName, ended.result.Started)] = ended
		r.history.OnResults([]operators.Result{ended.result})
	}
	return nil
}

func (r *retelling) wroteACause(of *begun) bool {
	for _, write := range of.result.Writes {
		if r.wanted[versionOf{write.Key, write.ResourceVersion}] {
			return true
		}
	}
	return false
}

// change gives the history the change of an event that the attempts name. Only then it reads the objects.
func (r *retelling) change(of *recording.Event, at time.Time) {
	if !of.HasObject {
		return
	}
	versions := r.bodies[of.Key]
	var now *recording.Object
	for i, version := range versions {
		if version.ResourceVersion == of.ResourceVersion {
			now, r.bodies[of.Key] = version, versions[i:] // A list may bring the version again.
			break
		}
	}
	before := r.before[of.Key]
	if r.before[of.Key] = now; of.Type == streams.Deleted {
		delete(r.before, of.Key)
	}
	named := r.wanted[versionOf{of.Key, of.ResourceVersion}] || of.Type == streams.Deleted
	for _, cause := range of.Coalesced {
		named = named || r.wanted[versionOf{cause.Key, cause.ResourceVersion}]
	}
	if !named || of.Change == 0 {
		return
	}
	event := streams.Event{Type: of.Type, Key: of.Key, ResourceVersion: of.ResourceVersion, Received: time.Unix(0, of.Received), Coalesced: of.Coalesced}
	made := streams.Change{Type: of.Change, Key: of.Key, Causes: event.Causes(), Received: event.Received}
	if of.Change == streams.Updated {
		made.Old = r.object(before)
	}
	if of.Change != streams.Removed {
		made.New = r.object(now)
	}
	r.history.OnChangesAt(at, []streams.Change{made})
}

// object returns the object of a record, or nil. Without it the answer has no paths of fields.
func (r *retelling) object(of *recording.Object) streams.Object {
	if of == nil {
		return nil
	}
	object, err := r.read.object(of)
	if err != nil {
		return nil
	}
	return object
}

// rename gives an attempt the IDs of the recording. A recording of an earlier version cannot tell the gate from the queue.
func (r *retelling) rename(of *history.Attempt) {
	was := r.known[of.ID]
	of.ID = was.id
	for i := range of.Causes {
		if controller, id, has := strings.Cut(of.Causes[i].WrittenBy, " "); has {
			of.Causes[i].WrittenBy = controller + " " + r.known[id].id
		}
	}
	for i := range of.Waits {
		if of.Waits[i].For == history.WaitGate && was.result.Queued == 0 {
			of.Waits[i].For = "start"
		}
	}
}
