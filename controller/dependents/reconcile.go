package dependents

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/types"
)

// Reconcile makes the children of an owner what they should be, as far as that can be done now. It must be
// called with the context of a reconciler. An owner that is being deleted keeps its children as they are:
// see [Set.Finalizer].
func (s *Set[O]) Reconcile(ctx context.Context, c *controller.Client, owner O) Outcome {
	if owner.GetDeletionTimestamp() != nil {
		return Outcome{}
	}
	p := s.begin(ctx, c, owner)
	for _, n := range s.sorted() {
		p.decide(n)
	}
	p.run()
	p.collect()
	return p.outcome()
}

// Delete deletes the children of an owner, the ones that come After others first. All children are gone
// when Outcome.Gone reports true.
func (s *Set[O]) Delete(ctx context.Context, c *controller.Client, owner O) Outcome {
	p := s.begin(ctx, c, owner)
	for _, n := range s.nodes {
		p.wanted[n] = false
	}
	p.run()
	p.collect()
	return p.outcome()
}

// pass is one call for one owner.
type pass[O streams.Object] struct {
	set    *Set[O]
	ctx    context.Context
	client *controller.Client
	owner  O
	wanted map[*node[O]]bool
	status map[*node[O]]Status // of the nodes that are done
	former []Status
	room   chan struct{} // for what runs at once

	mu     sync.Mutex
	claims map[claim]string // the dependent that desires an object
}

// claim identifies a desired object.
type claim struct {
	kind any // the type and the kind of a node
	name types.NamespacedName
}

func (s *Set[O]) begin(ctx context.Context, c *controller.Client, owner O) *pass[O] {
	return &pass[O]{
		set: s, ctx: ctx, client: c, owner: owner,
		wanted: map[*node[O]]bool{}, status: map[*node[O]]Status{}, claims: map[claim]string{},
		room: make(chan struct{}, s.concurrency),
	}
}

// sorted returns the nodes, each behind the nodes that it comes After.
func (s *Set[O]) sorted() []*node[O] {
	var sorted []*node[O]
	var visit func(n *node[O])
	visit = func(n *node[O]) {
		if slices.Contains(sorted, n) {
			return
		}
		for _, other := range s.before[n] {
			visit(other)
		}
		sorted = append(sorted, n)
	}
	for _, n := range s.nodes {
		visit(n)
	}
	return sorted
}

func (p *pass[O]) view(ctx context.Context) *View {
	return &View{ctx: ctx, client: p.client, owner: p.owner, set: p.set.name}
}

// decide evaluates the conditions of a node. A condition that panics fails the node, and leaves its
// children as they are.
func (p *pass[O]) decide(n *node[O]) {
	for _, other := range p.set.before[n] {
		if wanted, known := p.wanted[other]; known && !wanted {
			p.wanted[n] = false
			return
		}
	}
	view, wanted := p.view(p.ctx), true
	err := lifecycle.Guard(func() error {
		for _, condition := range n.when {
			wanted = wanted && condition(p.owner, view)
		}
		return view.failure()
	})
	if err != nil {
		p.status[n] = failed(n, fmt.Errorf("When: %w", err))
		wanted = true
	}
	p.wanted[n] = wanted
}

// run takes the nodes in their order, the independent ones in parallel, until no other can be taken.
func (p *pass[O]) run() {
	type done struct {
		of     *node[O]
		status Status
	}
	results := make(chan done, len(p.set.nodes))
	group := lifecycle.New(p.ctx)
	running := map[*node[O]]bool{}
	for {
		var startable []*node[O]
		for changed := true; changed; { // A node that waits lets others wait.
			changed, startable = false, nil
			for _, n := range p.set.nodes {
				if _, finished := p.status[n]; finished || running[n] {
					continue
				}
				switch waits, blocked := p.waits(n); {
				case blocked:
					p.status[n] = p.bounded(n, Status{Name: n.name, State: Waiting, Waits: namesOf(waits)})
					changed = true
				case len(waits) == 0:
					startable = append(startable, n)
				}
			}
		}
		if len(startable) == 1 && len(running) == 0 {
			p.status[startable[0]] = p.take(p.ctx, startable[0])
			continue
		}
		for _, n := range startable {
			running[n] = true
			group.Go(n.name, func(ctx context.Context) error {
				result := done{n, failed(n, errExited)}
				defer func() { results <- result }()
				result.status = p.take(ctx, n)
				return nil
			})
		}
		if len(running) == 0 {
			break
		}
		result := <-results
		delete(running, result.of)
		p.status[result.of] = result.status
	}
	_ = group.Wait() // Its functions return nil.
}

// waits returns the nodes that a node waits for. blocked reports that this call cannot end the wait.
func (p *pass[O]) waits(n *node[O]) (waits []*node[O], blocked bool) {
	first, state := p.set.before[n], Ready
	if !p.wanted[n] {
		first, state = p.set.behind[n], Absent
	}
	blocked = true
	for _, other := range first {
		status, finished := p.status[other]
		if finished && status.State == state {
			continue
		}
		waits = append(waits, other)
		blocked = blocked && finished
	}
	return waits, blocked && len(waits) > 0
}

// take makes the children of a node what they should be.
func (p *pass[O]) take(ctx context.Context, n *node[O]) (status Status) {
	if err := lifecycle.Guard(func() error {
		if p.wanted[n] {
			status = p.bounded(n, p.keep(ctx, n))
		} else {
			status = p.drop(ctx, n)
			status.bounded = n.deadline > 0
		}
		return nil
	}); err != nil {
		return failed(n, err)
	}
	return status
}

func failed[O streams.Object](n *node[O], err error) Status {
	return Status{Name: n.name, State: Failed, Message: err.Error(), Err: err, Permanent: operators.IsTerminal(err)}
}
