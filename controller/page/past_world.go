package page

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/internal/readiness"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The bounds of a world.
const (
	maxWorldBytes = 64 << 20 // of the objects' encodings, while the files are read
	maxWorldNodes = 20_000   // objects with readiness and owners
	maxWorldDepth = 64
	maxListed     = 50 // of attempts in flight, and of failing keys
	defaultRoots  = 200
	maxRoots      = 1000
)

// world is what the caches had, and what the controllers did, at a time.
type world struct {
	State pastState
	at    time.Time

	nodes   map[streams.Key]*pastNode
	owned   map[types.UID][]*pastNode
	members []recordedMember
}

// pastNode is an object of a world.
type pastNode struct {
	introspection.Node
	uid types.UID
}

// pastState is the part of the state of a manager that a recording has.
type pastState struct {
	Time        time.Time        `json:"time"`
	Controllers []pastController `json:"controllers"`
	Kinds       []pastKind       `json:"kinds"`
	LeftOut     int              `json:"leftOut"` // objects whose readiness and owners are not known, because there are too many

	// Manager is the recorded state of the manager at the time or up to two seconds before. It is missing in a recording of
	// an earlier version.
	Manager *introspection.State `json:"manager,omitempty"`
}

// pastController is a controller at a time. Its numbers count from the beginning of the recording.
type pastController struct {
	recordedMember
	Attempts int                     `json:"attempts"`
	Errors   int                     `json:"errors"`
	InFlight []introspection.Attempt `json:"inFlight"` // the first 50, oldest first
	Running  int                     `json:"running"`
	Backoffs []introspection.Failure `json:"backoffs"` // the first 50 keys whose last attempt failed
	Failing  int                     `json:"failing"`
	Patterns []introspection.Pattern `json:"patterns"` // that went on
}

// pastKind is a kind at a time.
type pastKind struct {
	Kind      string     `json:"kind"`
	Objects   int        `json:"objects"`
	LastEvent *time.Time `json:"lastEvent,omitempty"`
}

func (p *Past) state(ctx context.Context, asked question) (any, error) {
	made, err := p.worldAt(ctx, asked.at)
	if err != nil {
		return nil, err
	}
	return made.State, nil
}

// worldAt returns the world at a time. It keeps the last one for the questions that a person asks next.
func (p *Past) worldAt(ctx context.Context, at time.Time) (*world, error) {
	if at.IsZero() {
		return nil, &badQuestion{http.StatusBadRequest, "at is missing; give milliseconds since 1970"}
	}
	if p.last != nil && p.last.at.Equal(at) {
		return p.last, nil
	}
	found, err := newPatterns(p.read)
	if err != nil {
		return nil, err
	}
	of := &unfolding{patterns: found, world: &world{at: at, State: pastState{Time: at.UTC()}}, attempts: newAttempts(p.read), pending: map[streams.Key][]*recording.Object{}, live: map[streams.Key]*recording.Object{}, events: map[schema.GroupKind]int64{}, counted: map[string]*pastController{}, failing: map[reconciled]*introspection.Failure{}}
	if err := recording.Scan(ctx, p.path, time.Time{}, at, of.take); err != nil {
		return nil, err
	}
	of.conclude(p.read)
	p.last = of.world
	return of.world, nil
}

// unfolding is a world that is being put together.
type unfolding struct {
	*world
	attempts *attempts
	patterns *patterns
	pending  map[streams.Key][]*recording.Object // versions that an event may still apply, oldest first
	live     map[streams.Key]*recording.Object
	bytes    int // of the objects in live and pending
	events   map[schema.GroupKind]int64
	counted  map[string]*pastController
	failing  map[reconciled]*introspection.Failure
	said     []byte    // by the manager: its last state
	saidAt   time.Time // when it said so
}

func (u *unfolding) take(record *recording.Record) error {
	switch {
	case record.Header != nil:
		u.members = membersOf(*record.Header)
		return nil
	case record.Time().After(u.at):
		return nil
	case record.State != nil:
		u.said, u.saidAt = record.State, record.Time()
	case record.Object != nil:
		if u.bytes += len(record.Object.Body); u.bytes > maxWorldBytes {
			u.bytes -= len(record.Object.Body)
			record.Object.Body = nil
		}
		u.pending[record.Object.Key] = append(u.pending[record.Object.Key], record.Object)
	case record.Watch != nil && record.Watch.Ended:
		for key := range u.live {
			if key.GroupKind == record.Watch.Kind {
				u.remove(key)
			}
		}
	}
	for i := range record.Events {
		u.apply(&record.Events[i], record.Time())
	}
	for _, key := range record.Removed {
		u.remove(key)
	}
	if record.Start != nil {
		u.patterns.begin(record)
	}
	if ended := u.attempts.take(record); ended != nil {
		u.count(ended)
		u.patterns.end(ended)
	}
	return nil
}

// apply takes in an event. An event names its object by the version.
func (u *unfolding) apply(event *recording.Event, at time.Time) {
	if !event.HasObject {
		return
	}
	key := event.Key
	u.events[key.GroupKind] = max(u.events[key.GroupKind], event.Received)
	if event.Type == streams.Deleted {
		u.remove(key)
		return
	}
	versions := u.pending[key]
	for i, of := range versions {
		if of.ResourceVersion != event.ResourceVersion {
			continue
		}
		if event.Change == streams.Updated {
			u.patterns.update(event, u.live[key], of, at)
		}
		if before := u.live[key]; before != nil && before != of {
			u.bytes -= len(before.Body)
		}
		for _, skipped := range versions[:i] {
			if skipped != u.live[key] {
				u.bytes -= len(skipped.Body)
			}
		}
		u.live[key], u.pending[key] = of, versions[i:] // A list may bring the version again.
		return
	}
}

func (u *unfolding) remove(key streams.Key) {
	if of := u.live[key]; of != nil {
		u.bytes -= len(of.Body)
	}
	delete(u.live, key)
	delete(u.pending, key)
}

func (u *unfolding) controller(name string) *pastController {
	made := u.counted[name]
	if made == nil {
		made = &pastController{recordedMember: recordedMember{Name: name}, InFlight: []introspection.Attempt{}, Backoffs: []introspection.Failure{}, Patterns: []introspection.Pattern{}}
		u.counted[name] = made
	}
	return made
}

func (u *unfolding) count(ended *begun) {
	of, name := u.controller(ended.result.Controller), ended.reconciled()
	of.Attempts++
	if ended.result.Err == nil {
		delete(u.failing, name)
		return
	}
	of.Errors++
	reason := ended.result.Err.Error()
	if len(reason) > maxError {
		reason = strings.ToValidUTF8(reason[:maxError], "") + "…"
	}
	u.failing[name] = &introspection.Failure{Key: name.String(), Failures: ended.result.Attempt, Reason: reason, Terminal: ended.result.Outcome == "terminal"}
}

// conclude makes the nodes and the state.
func (u *unfolding) conclude(read decoder) {
	if manager := (introspection.State{}); u.said != nil && json.Unmarshal(u.said, &manager) == nil {
		manager.Time = u.saidAt.UTC()
		u.State.Manager = &manager
	}
	u.nodes, u.owned = make(map[streams.Key]*pastNode, len(u.live)), map[types.UID][]*pastNode{}
	objects := map[schema.GroupKind]int{}
	for key, of := range u.live {
		objects[key.GroupKind]++
		u.addNode(key, of, read)
		delete(u.live, key) // Its encoding is not needed any more.
	}
	for _, owned := range u.owned {
		slices.SortFunc(owned, func(a, b *pastNode) int { return compareNodes(&a.Node, &b.Node) })
	}
	for _, member := range u.members {
		u.controller(member.Name).Kind = member.Kind
	}
	for _, of := range u.attempts.open {
		u.controller(of.result.Controller).InFlight = append(u.controller(of.result.Controller).InFlight, introspection.Attempt{Key: of.result.NamespacedName.String(), Since: of.result.Started.UTC()})
	}
	for name, failure := range u.failing {
		u.controller(name.controller).Backoffs = append(u.controller(name.controller).Backoffs, *failure)
	}
	for name, found := range u.patterns.at(u.at) {
		u.controller(name).Patterns = found
	}
	u.State.Controllers, u.State.Kinds = []pastController{}, []pastKind{}
	for _, name := range slices.Sorted(maps.Keys(u.counted)) {
		of := u.counted[name]
		slices.SortFunc(of.InFlight, func(a, b introspection.Attempt) int { return a.Since.Compare(b.Since) })
		slices.SortFunc(of.Backoffs, func(a, b introspection.Failure) int {
			return cmp.Or(cmp.Compare(b.Failures, a.Failures), strings.Compare(a.Key, b.Key))
		})
		of.Running, of.Failing = len(of.InFlight), len(of.Backoffs)
		of.InFlight, of.Backoffs = of.InFlight[:min(maxListed, of.Running)], of.Backoffs[:min(maxListed, of.Failing)]
		u.State.Controllers = append(u.State.Controllers, *of)
	}
	for kind, last := range u.events {
		u.State.Kinds = append(u.State.Kinds, pastKind{kind.String(), objects[kind], new(time.Unix(0, last).UTC())})
	}
	slices.SortFunc(u.State.Kinds, func(a, b pastKind) int { return strings.Compare(a.Kind, b.Kind) })
}

// addNode adds an object to the nodes. An object that cannot be read, or is one too many, has a name alone.
func (u *unfolding) addNode(key streams.Key, of *recording.Object, read decoder) {
	made := &pastNode{Node: introspection.Node{Kind: key.GroupKind.String(), Namespace: key.Namespace, Name: key.Name, ResourceVersion: of.ResourceVersion, Ready: introspection.Unknown}}
	u.nodes[key] = made
	if of.Body == nil || len(u.nodes) > maxWorldNodes {
		made.Reason, made.Message = "LeftOut", "the recording has too many objects to look at each"
		u.State.LeftOut++
		return
	}
	object, err := read.object(of)
	if err != nil {
		made.Reason, made.Message = "NotReadable", err.Error()
		return
	}
	made.Node, made.uid = readiness.NodeOf(key.GroupKind, object), object.GetUID()
	readiness.Judge(&made.Node, object)
	for _, owner := range object.GetOwnerReferences() {
		u.owned[owner.UID] = append(u.owned[owner.UID], made)
	}
}

func compareNodes(a, b *introspection.Node) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// tree answers with an object of a time and the objects that it owned. Without an object it answers with the objects that
// controllers reconciled, whose namespace/name contains the text of search.
func (p *Past) tree(ctx context.Context, asked question) (any, error) {
	of, err := p.worldAt(ctx, asked.at)
	if err != nil {
		return nil, err
	}
	if object := asked.Get("object"); object != "" {
		key, err := of.find(object, asked.Get("namespace"))
		if err != nil {
			return nil, err
		}
		return of.grow(of.nodes[key], map[*pastNode]bool{}, 0), nil
	}
	limit, given := defaultRoots, asked.Get("limit")
	if given != "" {
		if limit, err = strconv.Atoi(given); err != nil || limit < 1 || limit > maxRoots {
			return nil, &badQuestion{http.StatusBadRequest, fmt.Sprintf("limit is %.40q; allowed is 1 to %d", given, maxRoots)}
		}
	}
	return of.roots(asked.Get("search"), limit), nil
}

// find returns the key of an object that a person names, as KIND/NAME.
func (w *world) find(object, namespace string) (streams.Key, error) {
	kind, name, isNamed := strings.Cut(object, "/")
	if !isNamed {
		return streams.Key{}, &badQuestion{http.StatusBadRequest, fmt.Sprintf("object is %.80q; give KIND/NAME, such as deployment.apps/web", object)}
	}
	for key := range w.nodes {
		if key.Name == name && key.Namespace == namespace && strings.EqualFold(key.GroupKind.String(), kind) {
			return key, nil
		}
	}
	return streams.Key{}, &badQuestion{http.StatusNotFound, fmt.Sprintf("at that time the recording has no %.80s in the namespace %.80q", object, namespace)}
}

// grow returns a node with what it owns. Each object has one place, so that cycles end.
func (w *world) grow(of *pastNode, seen map[*pastNode]bool, depth int) introspection.Node {
	made := of.Node
	if seen[of] = true; of.uid == "" {
		return made
	}
	for _, child := range w.owned[of.uid] {
		if seen[child] || depth >= maxWorldDepth {
			made.LeftOut = true
			continue
		}
		made.Children = append(made.Children, w.grow(child, seen, depth+1))
	}
	return made
}

func (w *world) roots(search string, limit int) introspection.Roots {
	found := introspection.Roots{Objects: []introspection.Node{}}
	isReconciled := func(kind string) bool {
		return slices.ContainsFunc(w.members, func(of recordedMember) bool { return of.Kind == kind })
	}
	for key, node := range w.nodes {
		if isReconciled(node.Kind) && strings.Contains(key.Namespace+"/"+key.Name, search) {
			found.Objects = append(found.Objects, node.Node)
		}
	}
	slices.SortFunc(found.Objects, func(a, b introspection.Node) int { return compareNodes(&a, &b) })
	found.Total = len(found.Objects)
	found.Objects = found.Objects[:min(limit, found.Total)]
	return found
}
