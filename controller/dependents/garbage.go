package dependents

import (
	"context"
	"errors"
	"fmt"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mayWrite returns an error if an existing object is not one of the node. wanted is the child as it should be.
func (p *pass[O]) mayWrite(n *node[O], existing, wanted streams.Object) error {
	by, owner := metav1.GetControllerOf(existing), metav1.GetControllerOf(wanted)
	switch {
	case by != nil && by.UID != owner.UID && by.Kind == owner.Kind && by.Name == owner.Name:
		return fmt.Errorf("%w (%s %s)", controller.ErrFormerOwner, by.Kind, by.Name)
	case by != nil && by.UID != p.owner.GetUID():
		return fmt.Errorf("%w: %s %s", controller.ErrOtherController, by.Kind, by.Name)
	case n.adopt:
		return nil
	case by == nil || existing.GetLabels()[SetLabel] != p.set.name:
		return ErrNotOwned
	}
	return nil
}

// delete deletes the children of the kind of a node, except for the ones that keep selects. It returns
// the names of the children that remain for now, such as ones with finalizers.
func (p *pass[O]) delete(ctx context.Context, n *node[O], keeps func(streams.Object) bool) (left []string, err error) {
	owned, err := n.owned(ctx, p.view(ctx))
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, object := range owned {
		if keeps(object) {
			continue
		}
		if object.GetDeletionTimestamp() == nil {
			if err := n.remove(ctx, p.client, object); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		rest, err := n.get(ctx, p.client, nameOf(object))
		if err != nil {
			errs = append(errs, err)
		} else if rest != nil && rest.GetUID() == object.GetUID() {
			left = append(left, object.GetName())
		}
	}
	return left, errors.Join(errs...)
}

// collect deletes children of dependents that are no longer in the set. It leaves a kind alone while a
// dependent of the kind may still take such a child over.
func (p *pass[O]) collect() {
	undecided, declared := map[any]bool{}, map[string]bool{}
	for _, n := range p.set.nodes {
		declared[n.name] = true
		switch p.status[n].State {
		case Waiting, Failed:
			undecided[kindOf(n)] = undecided[kindOf(n)] || p.wanted[n]
		}
	}
	done := map[any]bool{}
	for _, n := range p.set.nodes {
		kind := kindOf(n)
		if done[kind] || undecided[kind] {
			continue
		}
		done[kind] = true
		p.collectKind(n, declared)
	}
}

// collectKind deletes children of the kind of a node that no dependent of the set has made.
func (p *pass[O]) collectKind(n *node[O], declared map[string]bool) {
	former := map[string]bool{}
	var left []string
	err := lifecycle.Guard(func() (err error) {
		left, err = p.delete(p.ctx, n, func(object streams.Object) bool {
			name := object.GetLabels()[NameLabel]
			_, claimed := p.claims[claim{kindOf(n), nameOf(object)}]
			if declared[name] || claimed {
				return true
			}
			former[name] = true
			return false
		})
		return err
	})
	for name := range former {
		switch {
		case err != nil:
			p.former = append(p.former, Status{Name: name, State: Failed, Message: err.Error(), Err: err})
		case len(left) > 0:
			p.former = append(p.former, Status{Name: name, State: Deleting, Message: fmt.Sprintf("%d children remain", len(left))})
		}
	}
	if err != nil && len(former) == 0 {
		p.former = append(p.former, Status{Name: n.name, State: Failed, Message: err.Error(), Err: err})
	}
}

// outcome returns the states of all dependents.
func (p *pass[O]) outcome() Outcome {
	made := Outcome{}
	for _, n := range p.set.nodes {
		status := p.status[n]
		made.Dependents = append(made.Dependents, status)
		made.RequeueAfter = earlier(made.RequeueAfter, status.lookAgain)
	}
	made.Dependents = append(made.Dependents, p.former...)
	return made
}
