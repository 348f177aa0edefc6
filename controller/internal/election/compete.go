package election

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// compete waits until this replica holds the Lease. It returns nil when ctx ends.
func (e *Elector) compete(ctx context.Context) *Epoch {
	for ctx.Err() == nil {
		epoch, next, err := e.acquire(ctx)
		if epoch != nil {
			return epoch
		}
		if err != nil && ctx.Err() == nil {
			next = time.Now().Add(e.settings.RetryPeriod/2 + rand.N(e.settings.RetryPeriod))
			if e.isNew(err) {
				e.settings.Logger.Warn("the Lease cannot be acquired", "lease", e.settings.Lease.String(), "error", err)
			}
		}
		e.await(ctx, next)
	}
	return nil
}

// await waits until the Lease may be free. Each renewal of the holder postpones that. It returns before that if no renewal is
// noticed for the time of two: then the watch fails, or the holder does, and a read says which.
func (e *Elector) await(ctx context.Context, next time.Time) {
	for {
		timer := time.NewTimer(min(time.Until(next), 2*e.settings.RetryPeriod))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-e.noticed:
			if lease := e.reported.Load(); lease != nil {
				timer.Stop()
				e.observe(resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec))
				if e.seen.HolderIdentity != "" && e.seen.HolderIdentity != e.settings.Identity {
					next = e.free()
					continue
				}
			} else if !e.seenAt.IsZero() {
				timer.Stop() // A deletion frees nothing: the holder may not have noticed it.
				next = e.free()
				continue
			}
		}
		timer.Stop()
		return
	}
}

// observe takes a record of the Lease, and notes when it came if it is another one.
func (e *Elector) observe(record *resourcelock.LeaderElectionRecord) {
	if e.seenAt.IsZero() || !same(record, &e.seen) {
		e.seen, e.seenAt = *record, time.Now()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holder, e.turns = record.HolderIdentity, record.LeaderTransitions
}

// same reports whether two records are one renewal.
func same(a, b *resourcelock.LeaderElectionRecord) bool {
	return a.HolderIdentity == b.HolderIdentity && a.LeaseDurationSeconds == b.LeaseDurationSeconds && a.LeaderTransitions == b.LeaderTransitions &&
		a.RenewTime.Equal(&b.RenewTime) && a.AcquireTime.Equal(&b.AcquireTime)
}

// free returns when the Lease of another holder expires.
func (e *Elector) free() time.Time {
	duration := cmp.Or(time.Duration(e.seen.LeaseDurationSeconds)*time.Second, e.settings.LeaseDuration)
	return e.seenAt.Add(duration)
}

// acquire takes the Lease if it is free. Otherwise it returns when to try again.
func (e *Elector) acquire(ctx context.Context) (epoch *Epoch, next time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.settings.RenewDeadline/2)
	defer cancel()
	record, _, err := e.lock.Get(ctx)
	missing := apierrors.IsNotFound(err)
	switch {
	case err != nil && !missing:
		return nil, next, err
	case !missing:
		e.observe(record)
	}
	held := !e.seenAt.IsZero() && e.seen.HolderIdentity != "" && e.seen.HolderIdentity != e.settings.Identity
	if next = e.free(); held && time.Now().Before(next) {
		return nil, next, nil
	}
	sent := time.Now()
	wanted := e.record(sent, sent)
	if !e.seenAt.IsZero() && e.seen.HolderIdentity != e.settings.Identity {
		wanted.LeaderTransitions++
	}
	if missing {
		err = e.lock.Create(ctx, wanted)
	} else {
		err = e.lock.Update(ctx, wanted)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err): // Another replica was faster.
		return nil, time.Now(), nil
	case err != nil:
		return nil, next, err
	}
	e.observe(&wanted)
	epoch = newEpoch(ctx, sent, e.settings)
	if err := epoch.Check(); err != nil {
		return nil, next, fmt.Errorf("the answer came late: %w", err)
	}
	e.last = ""
	return epoch, next, nil
}

// record returns the record of this replica as the holder.
func (e *Elector) record(acquired, renewed time.Time) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{
		HolderIdentity: e.settings.Identity, LeaseDurationSeconds: int(e.settings.LeaseDuration / time.Second),
		AcquireTime: metav1.NewTime(acquired.UTC()), RenewTime: metav1.NewTime(renewed.UTC()), LeaderTransitions: e.seen.LeaderTransitions,
	}
}
