package page

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// maxCalls is how many requests of an attempt are kept, as in a result.
const maxCalls = 32

// attempts puts the attempts of a recording together from their records.
type attempts struct {
	read     decoder
	open     map[uint64]*begun
	failures map[reconciled]int                        // in a row
	kinds    map[schema.GroupResource]schema.GroupKind // that events have named
}

// reconciled is an object of a controller.
type reconciled struct {
	controller string
	types.NamespacedName
}

// begun is an attempt that runs.
type begun struct {
	id     string
	result operators.Result // Queued is 0 in a recording of an earlier version
}

func newAttempts(read decoder) *attempts {
	return &attempts{read: read, open: map[uint64]*begun{}, failures: map[reconciled]int{}, kinds: map[schema.GroupResource]schema.GroupKind{}}
}

// take takes in a record. It returns an attempt when that has ended.
func (a *attempts) take(record *recording.Record) *begun {
	for i := range record.Events {
		a.learn(record.Events[i].Key.GroupKind)
	}
	of := a.open[record.Attempt()]
	switch {
	case record.Start != nil:
		of = &begun{id: record.Start.ID, result: operators.Result{Request: record.Start.Request, Queued: record.Start.Queued, Started: record.Time()}}
		of.result.Attempt = a.failures[of.reconciled()] + 1
		a.open[record.Start.Attempt] = of
	case of == nil: // It began before the records that were read.
	case record.Exchange != nil:
		a.exchange(of, record)
	case record.End != nil:
		delete(a.open, record.End.Attempt)
		a.end(of, record)
		return of
	}
	return nil
}

func (b *begun) reconciled() reconciled {
	return reconciled{b.result.Controller, b.result.NamespacedName}
}

// learn learns the resource of a kind, which the answer to a deletion lacks.
func (a *attempts) learn(kind schema.GroupKind) {
	resource, _ := meta.UnsafeGuessKindToResource(kind.WithVersion(""))
	if _, known := a.kinds[resource.GroupResource()]; !known && len(a.kinds) < 1000 {
		a.kinds[resource.GroupResource()] = kind
	}
}

func (a *attempts) exchange(of *begun, record *recording.Record) {
	made := record.Exchange
	path, _, _ := strings.Cut(made.URL, "?")
	sent := time.Unix(0, made.Sent)
	if len(of.result.Calls) < maxCalls {
		of.result.Calls = append(of.result.Calls, operators.Call{Method: made.Method, Path: path, Code: made.Code, Sent: sent, Took: record.Time().Sub(sent)})
	}
	if made.Method == http.MethodGet || made.Code < 200 || made.Code > 299 || len(of.result.Writes) == maxCalls {
		return
	}
	key, version, err := a.read.answer(made)
	if err != nil {
		key, version = a.keyOf(path), ""
	}
	if key.Kind == "" {
		return // It is about no object, such as a review.
	}
	of.result.Writes = append(of.result.Writes, operators.Write{Verb: verbOf(made), Key: key, ResourceVersion: version, Asked: sent, Answered: record.Time()})
}

// keyOf returns the key of the object of a path, if its kind is known.
func (a *attempts) keyOf(path string) (key streams.Key) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	of := schema.GroupResource{}
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		of.Group, parts = parts[1], parts[3:]
	default:
		return key
	}
	if len(parts) > 3 && parts[0] == "namespaces" {
		key.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) < 2 {
		return streams.Key{}
	}
	of.Resource, key.Name = parts[0], parts[1]
	key.GroupKind = a.kinds[of]
	return key
}

// verbOf returns the verb of a write, in the words of a result.
func verbOf(of *recording.Exchange) string {
	switch {
	case of.Method == http.MethodPatch && strings.Contains(of.ContentType, "apply-patch"):
		return "apply"
	case of.Method == http.MethodPost:
		return "create"
	case of.Method == http.MethodPut:
		return "update"
	}
	return strings.ToLower(of.Method)
}

var (
	errPanicked  = errors.New("the reconciler panicked")
	errCancelled = errors.New("the attempt was cancelled")
)

func (a *attempts) end(of *begun, record *recording.Record) {
	made, end := &of.result, record.End
	made.Duration, made.RequeueAfter, made.Outcome = record.Time().Sub(made.Started), end.Again, operators.Succeeded
	switch {
	case end.Panicked:
		made.Err, made.Outcome = errPanicked, operators.Failed
	case end.Err != "" && end.Terminal:
		made.Err, made.Outcome = errors.New(end.Err), operators.Ended
	case end.Err != "":
		made.Err, made.Outcome = errors.New(end.Err), operators.Failed
	case end.Cancelled:
		made.Err, made.Outcome = errCancelled, operators.Failed
	case end.Again > 0:
		made.Outcome = operators.Requeued
	}
	if name := of.reconciled(); made.Err == nil {
		delete(a.failures, name)
	} else {
		a.failures[name]++
	}
}
