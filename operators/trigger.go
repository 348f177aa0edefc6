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
	Causes      []streams.Cause // what happened, oldest first; empty for a timer
	BeforeSync  bool            // whether the request skips the wait for ReconcileOptions.Start and Controllers.Open; an attempt that asks for another keeps this
	Routine     bool            // whether it is a periodic check without a cause, for which other requests do not wait
	SpecChanged bool            // whether an attempt may succeed that failed before, since the object itself changed: see Trigger

	// Received is when the oldest cause was received. For a retry or a timer, it is when that was
	// due. For a request that waited for a gate, it is when the gate opened, or when a BeforeSync
	// request for the same object was received.
	Received time.Time
}

// Rule selects the changes that concern a controller, and maps them to the controller's objects.
type Rule struct {
	Controller string
	Kind       schema.GroupKind // of the objects whose changes count

	// Map returns the controller's objects that a state of a changed object concerns. A nil Map
	// stands for the changed object itself. Map is called with the old state and with the new one,
	// so that an object that changes hands concerns both owners. It must be fast, and safe for use
	// by many goroutines.
	Map func(object streams.Object) []types.NamespacedName

	// MapChange, if set, takes the place of Map: it returns the controller's objects that a change
	// concerns. A request for an object of the changed object's own name may be SpecChanged, as without
	// Map. It must be fast, and safe for use by many goroutines.
	MapChange func(change streams.Change) []types.NamespacedName

	// When, if set, is a predicate: it reports whether a change makes requests. It must be fast,
	// and safe for use by many goroutines.
	When func(change streams.Change) bool

	// BeforeSync, if set, reports whether the request for an object skips the wait for
	// ReconcileOptions.Start. It must be fast, and safe for use by many goroutines.
	BeforeSync func(object streams.Object) bool
}

// Owner returns a Map for objects whose controller owner reference names an object of the given
// kind. That owner is in the object's own namespace.
func Owner(kind schema.GroupKind) func(streams.Object) []types.NamespacedName {
	return func(object streams.Object) []types.NamespacedName {
		if owner := ownerOf(object, kind); owner != "" {
			return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: owner}}
		}
		return nil
	}
}

// ClusterOwner returns a Map for objects whose controller owner reference names an object of the
// given cluster-scoped kind. The objects themselves may have namespaces.
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

// Trigger turns changes of the cache into requests, in order, by the rules at that time. A change
// makes at most one request for each controller and object; [Reconcile] joins the requests of
// several changes. The receiver runs the rules, as it runs the function of [streams.MapOnReceive].
//
// A rule that panics is a [streams.Error] for that change. The errors of a batch are joined, and
// follow its requests. [Retries] describes what becomes of the change.
//
// A request from a rule without Map is for the changed object itself. It is SpecChanged if the object
// was added or recreated, or has another generation; for a kind without generations, after any
// change.
//
//	[pod a-0 changed, pod b-0 changed, pod a-1 changed]  =>  [request a, request b, request a]
func Trigger(in streams.Stream[streams.Change], rules *Rules) streams.Stream[Request] {
	return streams.MapOnReceive(in, func(changes []streams.Change) ([]Request, error) {
		byKind := *rules.byKind.Load()
		requests := streams.NewBatch[Request](len(changes))
		var errs []error
		for i := range changes {
			before := len(requests)
			for _, rule := range byKind[changes[i].Key.GroupKind] {
				if err := mapChange(rule, &changes[i], &requests, before); err != nil {
					rules.failed(rule, &changes[i])
					errs = append(errs, ruleError(rule, &changes[i], err))
				}
			}
		}
		streams.Recycle(changes)
		return requests, errors.Join(errs...)
	})
}

// mapChange appends requests for the objects that the new and the old state of a change concern.
// The requests of this change start at index before; an object that is among them gets no second
// request.
func mapChange(rule *Rule, change *streams.Change, requests *[]Request, before int) error {
	return lifecycle.Guard(func() error {
		if rule.When != nil && !rule.When(*change) {
			return nil
		}
		beforeSync := rule.BeforeSync != nil && change.New != nil && rule.BeforeSync(change.New)
		if rule.MapChange != nil {
			for _, object := range rule.MapChange(*change) {
				mended := object == change.Key.NamespacedName && mends(change)
				*requests = appendRequest(*requests, before, rule.Controller, object, change, beforeSync, mended)
			}
			return nil
		}
		if rule.Map == nil {
			*requests = appendRequest(*requests, before, rule.Controller, change.Key.NamespacedName, change, beforeSync, mends(change))
			return nil
		}
		for _, state := range [...]streams.Object{change.New, change.Old} {
			if state == nil {
				continue
			}
			for _, object := range rule.Map(state) {
				*requests = appendRequest(*requests, before, rule.Controller, object, change, beforeSync, false)
			}
		}
		return nil
	})
}

// appendRequest appends a request, unless an equal one is there from index before on.
func appendRequest(requests []Request, before int, controller string, object types.NamespacedName, change *streams.Change, beforeSync, mended bool) []Request {
	for i := before; i < len(requests); i++ {
		if requests[i].NamespacedName == object && requests[i].Controller == controller {
			requests[i].BeforeSync = requests[i].BeforeSync || beforeSync
			requests[i].SpecChanged = requests[i].SpecChanged || mended
			return requests
		}
	}
	return append(requests, Request{
		Controller:     controller,
		NamespacedName: object,
		Causes:         change.Causes,
		Received:       change.Received,
		BeforeSync:     beforeSync,
		SpecChanged:    mended,
	})
}
