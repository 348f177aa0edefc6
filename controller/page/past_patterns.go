package page

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// patternBytes bounds the memory of the attempts and changes in which patterns are found. It is four times the default of an
// operator.
const patternBytes = 4 * history.DefaultBytes

// patterns finds the fights and hot loops of a recording.
type patterns struct {
	read    decoder
	history *history.History
	bytes   int // of the objects of the change that the history is given

	// stalled has what the operator itself had found when an attempt began. It remembers rounds that have left the ring. A
	// pattern is slowed down, so without these rounds it is not found again.
	stalled map[reconciled]*stalled
}

// stalled is a pattern that the operator had found.
type stalled struct {
	history.Finding
	until time.Time // its end, without a further round
}

func newPatterns(read decoder) (*patterns, error) {
	made := &patterns{read: read, stalled: map[reconciled]*stalled{}}
	var err error
	made.history, err = history.New(history.Options{Bytes: patternBytes, SizeOf: func(schema.GroupKind) int { return made.bytes }})
	return made, err
}

// begin takes in the beginning of an attempt.
func (p *patterns) begin(record *recording.Record) {
	of, name := record.Start.Stalled, reconciled{record.Start.Request.Controller, record.Start.Name()}
	if of == nil || of.Pattern == "" {
		delete(p.stalled, name)
		return
	}
	p.stalled[name] = &stalled{history.Finding{
		Pattern: history.Pattern(of.Pattern), Controller: name.controller, Object: name.NamespacedName, Written: of.Written, Fields: of.Fields, Managers: of.Managers,
		Rounds: of.Rounds, Since: time.Unix(0, of.Since), Last: time.Unix(0, of.Last),
	}, record.Time().Add(of.Left)}
}

// end takes in an attempt.
func (p *patterns) end(of *begun) { p.history.OnResults([]operators.Result{of.result}) }

// update takes in an update of an object. Without both of its versions, nothing can be compared.
func (p *patterns) update(event *recording.Event, before, now *recording.Object, at time.Time) {
	if before == nil || before.Body == nil || now.Body == nil {
		return
	}
	p.bytes = len(before.Body) + len(now.Body)
	of := streams.Event{Type: event.Type, Key: event.Key, ResourceVersion: event.ResourceVersion, Coalesced: event.Coalesced}
	p.history.OnChangesAt(at, []streams.Change{{
		Type: streams.Updated, Key: event.Key, Causes: of.Causes(),
		Old: &encodedObject{emptyObject, before, p.read}, New: &encodedObject{emptyObject, now, p.read},
	}})
}

// at returns the patterns of each controller that had not ended at a time.
func (p *patterns) at(at time.Time) map[string][]introspection.Pattern {
	found := map[reconciled]history.Finding{}
	for _, of := range p.history.FindingsAt(at) {
		found[reconciled{of.Controller, of.Object}] = of
	}
	for name, of := range p.stalled {
		if known, is := found[name]; !at.After(of.until) && (!is || of.knowsMoreThan(&known)) {
			found[name] = of.Finding
		}
	}
	made := map[string][]introspection.Pattern{}
	for name, of := range found {
		// Objects of a recording have their managed fields. One that both sides changed names the controller itself, too.
		of.Managers = slices.DeleteFunc(slices.Clone(of.Managers), func(manager string) bool { return manager == name.controller })
		made[name.controller] = append(made[name.controller], introspection.PatternOf(&of))
	}
	for _, listed := range made {
		slices.SortFunc(listed, func(a, b introspection.Pattern) int { return strings.Compare(a.Key, b.Key) })
	}
	return made
}

// knowsMoreThan reports whether the operator knew more of a pattern than the records that are left.
func (s *stalled) knowsMoreThan(found *history.Finding) bool {
	if s.Pattern == found.Pattern && s.Written == found.Written {
		return s.Rounds > found.Rounds
	}
	return s.Last.After(found.Last)
}

// encodedObject is an object for the history, which is decoded when the history compares it. Nearly all are never compared.
type encodedObject struct {
	*metav1.PartialObjectMetadata // The history asks for nothing that it has.

	of   *recording.Object
	read decoder
}

var emptyObject = &metav1.PartialObjectMetadata{}

// MarshalJSON implements json.Marshaler.
func (e *encodedObject) MarshalJSON() ([]byte, error) {
	object, err := e.read.object(e.of)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

// GetManagedFields implements metav1.Object.
func (e *encodedObject) GetManagedFields() []metav1.ManagedFieldsEntry {
	object, err := e.read.object(e.of)
	if err != nil {
		return nil
	}
	return object.GetManagedFields()
}
