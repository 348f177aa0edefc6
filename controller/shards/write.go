package shards

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nextWrite returns when the Lease is to be written.
func (m *Member) nextWrite(next step) time.Time {
	if !m.failed && (!next.joined || next.wanted != m.published) {
		return time.Time{}
	}
	return m.sent.Add(m.options.RetryPeriod)
}

// check lists the Leases, as they are after the last write. It returns false if that failed.
func (m *Member) check(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, m.options.RenewDeadline/4)
	defer cancel()
	list, asked := &coordinationv1.LeaseList{}, time.Now()
	// Without a resource version, the answer has everything that was stored before the request.
	err := m.client.Get().Namespace(m.options.Namespace).Resource(m.kind.Resource()).
		VersionedParams(&metav1.ListOptions{LabelSelector: Selector(m.options.Group)}, metav1.ParameterCodec).
		Do(ctx).Into(list)
	if err != nil {
		m.log.Warn("listing the Leases of the members failed", "error", err)
		return false
	}
	leases := make([]*coordinationv1.Lease, len(list.Items))
	for i := range list.Items {
		leases[i] = &list.Items[i]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.view.replace(leases, asked, time.Now())
	m.mayLag = false
	return true
}

// write stores the claims in the Lease, which renews it.
func (m *Member) write(ctx context.Context, wanted Set, leaving bool) {
	ctx, cancel := context.WithTimeout(ctx, m.options.RenewDeadline/2)
	defer cancel()
	m.sent = time.Now()
	lease, stored := m.lease(wanted, leaving, m.sent), &coordinationv1.Lease{}
	var err error
	if lease.ResourceVersion = m.version; m.version == "" {
		err = m.client.Post().Namespace(lease.Namespace).Resource(m.kind.Resource()).Body(lease).Do(ctx).Into(stored)
	} else {
		err = m.client.Put().Namespace(lease.Namespace).Resource(m.kind.Resource()).Name(lease.Name).Body(lease).Do(ctx).Into(stored)
	}
	// After a failure, the watch may have missed changes too.
	m.mayLag = m.mayLag || m.failed
	if m.failed = err != nil; m.failed {
		m.log.Warn("renewing the Lease of this replica failed", "identity", m.options.Identity, "error", err)
		m.published = m.published.both(wanted) // Whether the write was stored is not known.
		m.reread(ctx, err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	deadline := m.sent.Add(m.options.RenewDeadline)
	m.version = stored.ResourceVersion
	switch {
	case m.term == nil && time.Now().Before(deadline):
		m.term, m.mayLag = newTerm(deadline, m.options.LeaseDuration-m.options.RenewDeadline, m.poke), true
	case m.term == nil:
		return
	case !m.term.extend(deadline):
		m.lose()
		return
	}
	m.published = wanted
}

// reread finds out which version the Lease has after a write that failed.
func (m *Member) reread(ctx context.Context, failure error) {
	if apierrors.IsNotFound(failure) { // Another client has deleted the Lease, so others may not see the claims.
		m.resign()
		return
	}
	if !apierrors.IsConflict(failure) && !apierrors.IsAlreadyExists(failure) {
		return // If it was stored nevertheless, the next write is a conflict.
	}
	stored := &coordinationv1.Lease{}
	err := m.client.Get().Namespace(m.options.Namespace).Resource(m.kind.Resource()).Name(m.view.own).Do(ctx).Into(stored)
	switch {
	case apierrors.IsNotFound(err):
		m.resign()
	case err == nil:
		m.version = stored.ResourceVersion
		m.sent, m.failed = time.Time{}, false
	}
}

// resign ends the term after the Lease has been deleted.
func (m *Member) resign() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.version = ""; m.term != nil {
		m.lose()
	}
}

// leave ends the term and deletes the Lease. If the term has ended before, the Lease may have claims. It expires by itself
// if writes of the past may still take effect.
func (m *Member) leave(ctx context.Context) {
	m.mu.Lock()
	over := m.term == nil
	if !over {
		m.term.end()
		m.term = nil
	}
	holds := m.draining(time.Now()) != Set{}
	m.mu.Unlock()
	m.notify()
	switch {
	case m.version == "", holds:
	case over:
		lease := m.lease(Set{}, true, time.Now())
		lease.ResourceVersion = m.version
		m.evict(ctx, lease)
	default:
		m.delete(ctx, m.view.own, m.version)
	}
}

// sweep withdraws the claims of the Leases that have expired, and deletes the Leases, after each write of the own one. The
// first member does that. A replica that has joined since would take their owners for living members, until they
// expire for it too. It has a goroutine of its own, because a slow API server must not delay renewals.
func (m *Member) sweep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.written:
		}
		for _, lease := range m.expired() {
			m.evict(ctx, lease.DeepCopy())
		}
	}
}

// expired returns the Leases that have expired, if this member is the first.
func (m *Member) expired() []*coordinationv1.Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	var old []*coordinationv1.Lease
	first, now := true, time.Now()
	for _, other := range m.view.others {
		switch expires := other.expires(); {
		case now.Before(expires):
			first = first && m.options.Identity < other.Identity
		case !other.gone:
			old = append(old, other.lease)
		}
	}
	if !first {
		return nil
	}
	return old
}

// evict withdraws the claims of an expired Lease and deletes it, unless it has changed.
func (m *Member) evict(ctx context.Context, lease *coordinationv1.Lease) {
	ctx, cancel := context.WithTimeout(ctx, m.options.RetryPeriod)
	defer cancel()
	lease.Annotations[annotationSlots], lease.Annotations[annotationLeaving] = Set{}.String(), "true"
	withdrawn := &coordinationv1.Lease{}
	err := m.client.Put().Namespace(lease.Namespace).Resource(m.kind.Resource()).Name(lease.Name).Body(lease).Do(ctx).Into(withdrawn)
	if err == nil {
		m.delete(ctx, lease.Name, withdrawn.ResourceVersion)
	}
}

// delete deletes a Lease unless it has changed. If that fails, the Lease stays, which does no harm.
func (m *Member) delete(ctx context.Context, name, version string) {
	ctx, cancel := context.WithTimeout(ctx, m.options.RetryPeriod)
	defer cancel()
	err := m.client.Delete().Namespace(m.options.Namespace).Resource(m.kind.Resource()).Name(name).
		Body(&metav1.DeleteOptions{
			TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
			Preconditions: &metav1.Preconditions{ResourceVersion: &version},
		}).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		m.log.Warn("deleting the Lease of a replica that is gone failed", "lease", name, "error", err)
	}
}
