package dependents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// keep applies the desired children of a node, and deletes the others.
func (p *pass[O]) keep(ctx context.Context, n *node[O]) Status {
	desired, err := p.desired(ctx, n)
	if isNotYet(err) {
		return Status{Name: n.name, State: Waiting, Message: err.Error()}
	}
	if err != nil {
		return failed(n, fmt.Errorf("making the desired state: %w", err))
	}
	for _, object := range desired {
		if err := p.prepare(ctx, n, object); err != nil {
			return failed(n, err)
		}
	}
	status := Status{Name: n.name, State: Ready}
	var errs []error
	for i, applied := range p.applyAll(ctx, n, desired) {
		object, readiness, err := desired[i], applied.readiness, applied.err
		switch {
		case err != nil:
			errs = append(errs, err)
		case readiness.Failed:
			errs = append(errs, operators.Terminal(fmt.Errorf("%s: %s", object.GetName(), readiness.Message)))
		case !readiness.Ready && status.State == Ready:
			status.State, status.Message = Progressing, object.GetName()+": "+cmp.Or(readiness.Message, "it is not ready")
		}
		status.lookAgain = earlier(status.lookAgain, readiness.LookAgain)
	}
	keeps := func(object streams.Object) bool {
		return object.GetLabels()[NameLabel] != n.name || slices.ContainsFunc(desired, func(wanted streams.Object) bool { return nameOf(wanted) == nameOf(object) })
	}
	if _, err := p.delete(ctx, n, keeps); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		status.State, status.Message, status.Err = Failed, err.Error(), err
		status.Permanent = !slices.ContainsFunc(errs, func(err error) bool { return !operators.IsTerminal(err) })
	}
	return status
}

// desired returns the desired children of a node.
func (p *pass[O]) desired(ctx context.Context, n *node[O]) (desired []streams.Object, err error) {
	p.room <- struct{}{}
	defer func() { <-p.room }()
	panicked := lifecycle.Guard(func() error {
		desired, err = n.desired(ctx, p.owner, p.view(ctx))
		return nil
	})
	return desired, errors.Join(err, panicked)
}

// applied is what became of one child.
type applied struct {
	readiness Readiness
	err       error
}

// applyAll applies children of a node, in parallel if there are several.
func (p *pass[O]) applyAll(ctx context.Context, n *node[O], desired []streams.Object) []applied {
	results := make([]applied, len(desired))
	apply := func(ctx context.Context, i int) {
		results[i].err = errExited
		p.room <- struct{}{}
		defer func() { <-p.room }()
		if err := lifecycle.Guard(func() error {
			results[i].readiness, results[i].err = p.applyOne(ctx, n, desired[i])
			return nil
		}); err != nil {
			results[i].err = err
		}
	}
	if len(desired) == 1 {
		apply(ctx, 0)
		return results
	}
	group := lifecycle.New(ctx)
	for i := range desired {
		group.Go(desired[i].GetName(), func(ctx context.Context) error {
			apply(ctx, i)
			return nil
		})
	}
	_ = group.Wait() // Its functions return nil.
	return results
}

// errExited is the error of a function that ended its goroutine, as FailNow of package testing does.
var errExited = errors.New("it ended its goroutine")

// earlier returns the shorter of two times, where 0 stands for none.
func earlier(a, b time.Duration) time.Duration {
	if a <= 0 || b <= 0 {
		return max(a, b, 0)
	}
	return min(a, b)
}

// prepare completes a desired child, and claims it for the node.
func (p *pass[O]) prepare(ctx context.Context, n *node[O], object streams.Object) error {
	if object.GetName() == "" {
		return fmt.Errorf("a desired %v has no name; set it", n.typed)
	}
	object.SetResourceVersion("") // It may be a copy of what the cache has.
	object.SetUID("")
	labels := map[string]string{}
	for name, value := range object.GetLabels() {
		labels[name] = value
	}
	labels[SetLabel], labels[NameLabel] = p.set.name, n.name
	object.SetLabels(labels)
	if !n.kind.Empty() {
		object.GetObjectKind().SetGroupVersionKind(n.kind)
	}
	switch namespaced, err := p.client.IsNamespaced(ctx, object); {
	case err != nil:
		return err
	case !namespaced:
		object.SetNamespace("") // An owner with a namespace is refused below: the garbage collector would delete the object.
	case object.GetNamespace() == "":
		object.SetNamespace(p.owner.GetNamespace())
	}
	if err := controller.SetControllerReference(p.client, p.owner, object); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := claim{kindOf(n), nameOf(object)}
	if by, taken := p.claims[key]; taken {
		return fmt.Errorf("%s is desired twice, by %s and by %s; let one of them make it", object.GetName(), by, n.name)
	}
	p.claims[key] = n.name
	return nil
}

// kindOf identifies the kind of a node.
func kindOf[O streams.Object](n *node[O]) any { return [2]any{n.typed, n.kind} }

func nameOf(object streams.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// applyOne applies one child, and returns whether it is ready.
func (p *pass[O]) applyOne(ctx context.Context, n *node[O], object streams.Object) (Readiness, error) {
	existing, err := n.get(ctx, p.client, nameOf(object))
	if err == nil && existing == nil && !n.adopt {
		// An apply would take over what the cache does not have yet.
		written, refused := n.apply(ctx, p.client, object, controller.CreateOnly())
		if !apierrors.IsAlreadyExists(refused) {
			return p.checked(ctx, n, written, refused)
		}
		if existing, err = n.getLive(ctx, p.client, nameOf(object)); existing == nil {
			return Readiness{}, errors.Join(err, refused)
		}
	}
	if err != nil {
		return Readiness{}, err
	}
	if existing != nil {
		if err := p.mayWrite(n, existing, object); err != nil {
			return Readiness{}, fmt.Errorf("%s: %w", object.GetName(), err)
		}
		if existing.GetDeletionTimestamp() != nil {
			return Readiness{Message: "the one before it is being deleted"}, nil
		}
	}
	written, err := n.apply(ctx, p.client, object, controller.Adopt()) // mayWrite has checked the owner.
	return p.checked(ctx, n, written, err)
}

// checked returns whether a child that was written is ready.
func (p *pass[O]) checked(ctx context.Context, n *node[O], written streams.Object, err error) (Readiness, error) {
	if err != nil {
		return Readiness{}, err
	}
	readiness, err := n.check(ctx, written)
	if err != nil {
		return Readiness{}, fmt.Errorf("checking whether %s is ready: %w", written.GetName(), err)
	}
	return readiness, nil
}

// drop deletes the children of a node that is not wanted.
func (p *pass[O]) drop(ctx context.Context, n *node[O]) Status {
	left, err := p.delete(ctx, n, func(object streams.Object) bool { return object.GetLabels()[NameLabel] != n.name })
	switch {
	case err != nil:
		return failed(n, err)
	case len(left) > 0:
		return Status{Name: n.name, State: Deleting, Message: strings.Join(left, ", ")}
	}
	return Status{Name: n.name, State: Absent}
}
