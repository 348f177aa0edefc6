package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lead renews the Lease until it is lost or ctx ends, and returns why it is lost. After a loss it returns when
// all work of the epoch has left, or ctx ends.
func (e *Elector) lead(ctx context.Context, epoch *Epoch) (lost error) {
	e.setEpoch(epoch)
	e.settings.OnAcquired()
	if lost = e.keep(ctx, epoch); lost == nil {
		return nil
	}
	e.setEpoch(nil)
	epoch.end(fmt.Errorf("%w: %w", ErrNotLeading, lost))
	e.setUnended(epoch)
	e.settings.OnLost(lost)
	select {
	case <-epoch.empty:
	case <-ctx.Done():
	}
	e.setUnended(nil)
	return lost
}

var errTaken = errors.New("another replica holds the Lease")

// keep renews the Lease. It returns nil when ctx ends, and otherwise why the Lease is lost.
func (e *Elector) keep(ctx context.Context, epoch *Epoch) error {
	next := epoch.began.Add(e.settings.RetryPeriod)
	var failed error
	for {
		timer := time.NewTimer(min(time.Until(next), epoch.Left()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-e.noticed:
			timer.Stop()
			if lease := e.reported.Load(); lease != nil && resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec).HolderIdentity == e.settings.Identity {
				continue // It is a renewal of this replica.
			}
			if err := e.verify(ctx, epoch); err != nil {
				return err
			}
			continue
		}
		if epoch.Left() <= 0 {
			return errors.Join(fmt.Errorf("it was not renewed for %v", e.settings.RenewDeadline), failed)
		}
		sent := time.Now()
		switch err := e.renew(ctx, epoch, sent); {
		case errors.Is(err, errTaken):
			return err
		case err != nil && ctx.Err() == nil:
			failed = err
			next = time.Now().Add(e.settings.RetryPeriod)
			if e.isNew(err) {
				e.settings.Logger.Warn("the Lease cannot be renewed", "lease", e.settings.Lease.String(), "error", err)
			}
		default:
			failed, e.last = nil, ""
			next = sent.Add(e.settings.RetryPeriod)
		}
	}
}

// renew renews the Lease once. An attempt gets half of the time that is left, so that a connection which
// hangs leaves time for another attempt.
func (e *Elector) renew(ctx context.Context, epoch *Epoch, sent time.Time) error {
	attempt, cancel := context.WithTimeout(ctx, epoch.Left()/2)
	defer cancel()
	wanted := e.record(e.seen.AcquireTime.Time, sent)
	err := e.lock.Update(attempt, wanted)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // Perhaps an earlier attempt was not answered.
		if err := e.verify(attempt, epoch); err != nil {
			return err
		}
		err = e.lock.Update(attempt, wanted)
	}
	if err != nil {
		return err
	}
	e.observe(&wanted)
	if epoch.Left() <= 0 { // Work was refused meanwhile, so the epoch cannot go on.
		return errors.New("the answer came late")
	}
	epoch.renewed(sent, e.settings)
	return nil
}

// verify returns an error that wraps errTaken if the Lease no longer names this replica.
func (e *Elector) verify(ctx context.Context, epoch *Epoch) error {
	asking, cancel := context.WithTimeout(ctx, epoch.Left()/2)
	defer cancel()
	record, _, err := e.lock.Get(asking)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: it was deleted", errTaken)
	case err != nil:
		return nil // It expires by itself, if that goes on.
	case record.HolderIdentity == e.settings.Identity:
		return nil
	}
	e.observe(record)
	return fmt.Errorf("%w: %q", errTaken, record.HolderIdentity)
}

// release ends the epoch, and frees the Lease unless a write may still take effect.
func (e *Elector) release(ctx context.Context, epoch *Epoch) {
	e.setEpoch(nil)
	inside := epoch.end(fmt.Errorf("%w: the Lease is released", ErrNotLeading))
	if inside > 0 || epoch.inDoubt() > 0 {
		e.settings.Logger.Info("the Lease is left to expire, because a write was not answered", "lease", e.settings.Lease.String())
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.settings.RenewDeadline/2)
	defer cancel()
	freed := e.record(time.Now(), time.Now())
	freed.HolderIdentity, freed.LeaseDurationSeconds = "", 1
	err := e.lock.Update(ctx, freed)
	if apierrors.IsConflict(err) { // A renewal was not answered when ctx ended.
		record, _, got := e.lock.Get(ctx)
		switch {
		case got != nil:
			err = got
		case record.HolderIdentity == e.settings.Identity:
			err = e.lock.Update(ctx, freed)
		}
	}
	if err != nil {
		if e.isNew(err) {
			e.settings.Logger.Warn("the Lease cannot be released, and expires by itself", "lease", e.settings.Lease.String(), "error", err)
		}
		return
	}
	e.observe(&freed)
	e.settings.OnReleased()
}
