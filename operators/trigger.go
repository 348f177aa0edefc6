package operators

import (
	"context"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Request asks a controller to reconcile one object.
type Request struct {
	Controller string
	types.NamespacedName
	Causes   []streams.Cause // what happened, oldest first; empty for a timer
	Received time.Time       // when the oldest cause was received; of a retry or a timer, when it was due
}

// Rule says which changes concern a controller, and which of its objects they concern.
type Rule struct {
	Controller string
	Kind       schema.GroupKind // of the objects whose changes count

	// Concerns names the controller's objects that a state of such an object concerns. It
	// is called with the old state and with the new one, so that an object that changes
	// hands concerns both owners. It must be fast, and safe for use by many goroutines.
	Concerns func(object streams.Object) []types.NamespacedName

	// Ignore, if set, says of a change that it concerns nobody.
	Ignore func(change streams.Change) bool
}

// Self is the Concerns of the objects that a controller reconciles.
func Self(object streams.Object) []types.NamespacedName {
	return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: object.GetName()}}
}

// Owner is the Concerns of objects that are controlled by an object of a kind, by owner
// reference.
func Owner(kind schema.GroupKind) func(streams.Object) []types.NamespacedName {
	return func(object streams.Object) []types.NamespacedName {
		owner := metav1.GetControllerOfNoCopy(object)
		if owner == nil || owner.Kind != kind.Kind {
			return nil
		}
		if group, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || group.Group != kind.Group {
			return nil
		}
		return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: owner.Name}}
	}
}

// Trigger turns changes of the cache into requests, by rules. Of one batch it makes at
// most one request for each controller and object, with the causes of all changes. A rule
// that panics is a [streams.Error] for that change, behind the requests of its batch.
//
//	[pod a-0 changed, pod a-1 changed, pod b-0 changed]  =>  [request a, request b]
func Trigger(in streams.Stream[streams.Change], rules ...Rule) streams.Stream[Request] {
	byKind := map[schema.GroupKind][]Rule{}
	for _, rule := range rules {
		byKind[rule.Kind] = append(byKind[rule.Kind], rule)
	}
	return streams.Lift(in, func(_ context.Context, in <-chan rxgo.Item, out streams.Sink[Request]) {
		for item := range in {
			changes, err := streams.Values[streams.Change](item)
			if err != nil {
				if !out.Error(err) {
					return
				}
				continue
			}
			requests, errs := requestsFor(changes, byKind)
			if len(requests) > 0 && !out.Send(requests) {
				return
			}
			for _, err := range errs {
				if !out.Error(err) {
					return
				}
			}
		}
	})
}

// target is the identity of a request.
type target struct {
	controller string
	object     types.NamespacedName
}

// asked is where the request for a target is, and which change asked for it last.
type asked struct{ request, change int }

func requestsFor(changes []streams.Change, rules map[schema.GroupKind][]Rule) (requests []Request, errs []error) {
	index := make(map[target]asked, len(changes))
	requests = make([]Request, 0, len(changes))
	for i, change := range changes {
		for _, rule := range rules[change.Key.GroupKind] {
			objects, err := concerned(rule, change)
			if err != nil {
				errs = append(errs, &streams.Error{Source: "rule of " + rule.Controller, Key: change.Key, Err: err})
			}
			for _, object := range objects {
				to := target{rule.Controller, object}
				request := Request{rule.Controller, object, change.Causes, change.Received}
				before, known := index[to]
				switch {
				case !known:
					index[to] = asked{len(requests), i}
					requests = append(requests, request)
				case before.change != i: // One change asks once, whatever the rules.
					index[to] = asked{before.request, i}
					requests[before.request] = joined(requests[before.request], request)
				}
			}
		}
	}
	return requests, errs
}

// concerned is whom the new and the old state concern.
func concerned(rule Rule, change streams.Change) (objects []types.NamespacedName, err error) {
	err = lifecycle.Guard(func() error {
		if rule.Ignore != nil && rule.Ignore(change) {
			return nil
		}
		for _, state := range []streams.Object{change.New, change.Old} {
			if state != nil {
				objects = append(objects, rule.Concerns(state)...)
			}
		}
		return nil
	})
	return objects, err
}
