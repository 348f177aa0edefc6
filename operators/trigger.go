package operators

import (
	"errors"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Request asks a controller to reconcile one object.
type Request struct {
	Controller string
	types.NamespacedName
	Causes     []streams.Cause // what happened, oldest first; empty for a timer
	BeforeSync bool            // it waits neither for ReconcileOptions.Start nor for Controllers.Open
	Mended     bool            // the object itself was changed such that an attempt may succeed that failed before: see Trigger

	// Received is when the oldest cause was received; of a retry or a timer, when it was due;
	// of a request that waited for a gate, when that opened, or when a BeforeSync one for the
	// same object was received.
	Received time.Time
}

// Rule says which changes concern a controller, and which of its objects they concern.
type Rule struct {
	Controller string
	Kind       schema.GroupKind // of the objects whose changes count

	// Map names the controller's objects that a state of such an object concerns; nil
	// is for the object itself. It is called with the old state and with the new one, so
	// that an object that changes hands concerns both owners. It must be fast, and safe for
	// use by many goroutines.
	Map func(object streams.Object) []types.NamespacedName

	// When, if set, reports whether a change makes requests. It must be fast, and safe for use
	// by many goroutines.
	When func(change streams.Change) bool

	// BeforeSync, if set, says of an object that its request does not wait for
	// ReconcileOptions.Start. It must be fast, and safe for use by many goroutines.
	BeforeSync func(object streams.Object) bool
}

// Owner returns a Map for objects that are controlled, by owner reference, by an object of
// a kind in their own namespace.
func Owner(kind schema.GroupKind) func(streams.Object) []types.NamespacedName {
	return func(object streams.Object) []types.NamespacedName {
		if owner := ownerOf(object, kind); owner != "" {
			return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: owner}}
		}
		return nil
	}
}

// ClusterOwner returns a Map for objects that are controlled, by owner reference, by an
// object of a kind without namespaces. The objects themselves may have namespaces.
func ClusterOwner(kind schema.GroupKind) func(streams.Object) []types.NamespacedName {
	return func(object streams.Object) []types.NamespacedName {
		if owner := ownerOf(object, kind); owner != "" {
			return []types.NamespacedName{{Name: owner}}
		}
		return nil
	}
}

// ownerOf returns the name of the object of a kind that controls an object, or "".
func ownerOf(object streams.Object, kind schema.GroupKind) string {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || owner.Kind != kind.Kind {
		return ""
	}
	if group, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || group.Group != kind.Group {
		return ""
	}
	return owner.Name
}

// Trigger turns changes of the cache into requests, by the rules that there are, in order. Of
// one change it makes at most one request for each controller and object; [Reconcile] joins those of
// several. A rule that panics is a [streams.Error] for that change, joined with others
// behind the requests of its batch; see [Retries] for what becomes of the change. It is done by the
// receiver, as that of [streams.MapBatches].
//
// The request for an object itself, of a rule without Map, is Mended if the object was
// added, recreated, or has another generation; of a kind without generations, if it was
// changed at all.
//
//	[pod a-0 changed, pod b-0 changed, pod a-1 changed]  =>  [request a, request b, request a]
func Trigger(in streams.Stream[streams.Change], rules *Rules) streams.Stream[Request] {
	return streams.MapBatches(in, func(changes []streams.Change) ([]Request, error) {
		byKind := *rules.byKind.Load()
		requests := streams.NewBatch[Request](len(changes))
		var errs []error
		for i := range changes {
			before := len(requests)
			for _, rule := range byKind[changes[i].Key.GroupKind] {
				if err := concerned(rule, &changes[i], &requests, before); err != nil {
					rules.failed(rule, &changes[i])
					errs = append(errs, failure(rule, &changes[i], err))
				}
			}
		}
		streams.Recycle(changes)
		return requests, errors.Join(errs...)
	})
}

// concerned appends requests for whom the new and the old state of a change concern, if
// they are not among those of the change, which are the last from before on.
func concerned(rule *Rule, change *streams.Change, requests *[]Request, before int) error {
	return lifecycle.Guard(func() error {
		if rule.When != nil && !rule.When(*change) {
			return nil
		}
		early := rule.BeforeSync != nil && change.New != nil && rule.BeforeSync(change.New)
		if rule.Map == nil {
			*requests = asked(*requests, before, rule.Controller, change.Key.NamespacedName, change, early, mends(change))
			return nil
		}
		for _, state := range [...]streams.Object{change.New, change.Old} {
			if state == nil {
				continue
			}
			for _, object := range rule.Map(state) {
				*requests = asked(*requests, before, rule.Controller, object, change, early, false)
			}
		}
		return nil
	})
}

// asked appends a request, if it is not there from before on.
func asked(requests []Request, before int, controller string, object types.NamespacedName, change *streams.Change, early, mended bool) []Request {
	for i := before; i < len(requests); i++ {
		if requests[i].NamespacedName == object && requests[i].Controller == controller {
			requests[i].BeforeSync = requests[i].BeforeSync || early
			requests[i].Mended = requests[i].Mended || mended
			return requests
		}
	}
	return append(requests, Request{
		Controller:     controller,
		NamespacedName: object,
		Causes:         change.Causes,
		Received:       change.Received,
		BeforeSync:     early,
		Mended:         mended,
	})
}
