package shards_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	schedules = flag.Int("schedules", 60, "how many random schedules of a group of replicas to run")
	firstOne  = flag.Int("first-schedule", 0, "the first of them")
)

// Replicas join, end, are killed and are cut off, in random schedules. No two of them work on one key at once.
// No key is without an owner for longer than a Lease and a second.
func TestNoKeyHasTwoOwnersAndNoneIsOrphaned(t *testing.T) {
	works, refused := 0, 0
	for seed := range *schedules {
		seed += *firstOne
		inWorld(t, uint64(seed), sourcestest.Options{}, func(w *world) {
			w.run()
			works, refused = works+w.works, refused+w.refused
			if len(w.wrong) > 0 {
				t.Errorf("schedule %d is wrong", seed)
			}
		})
	}
	t.Logf("%d reconciles, %d refused", works, refused)
	if works < *schedules*100 || refused == 0 {
		t.Errorf("%d reconciles and %d refused writes prove little", works, refused)
	}
}

// A server that fails at random may delay an owner, and never makes two.
func TestAServerThatFailsMakesNoTwoOwners(t *testing.T) {
	for seed := range *schedules / 3 {
		inWorld(t, uint64(seed), sourcestest.Options{Seed: uint64(seed) + 1}, func(w *world) {
			w.run()
			w.wrong = slices.DeleteFunc(w.wrong, func(wrong string) bool { return strings.Contains(wrong, "has no owner") })
			if len(w.wrong) > 0 {
				t.Errorf("schedule %d is wrong", seed)
			}
		})
	}
}

// run runs a random schedule. In the end all is whole, and each slot has one owner.
func (w *world) run() {
	w.group.Go("orphans", w.followOrphans)
	for range 1 + w.random.IntN(3) {
		w.join(3)
	}
	for range 12 {
		w.pass(time.Duration(w.random.IntN(9000)) * time.Millisecond)
		var living []*replica
		for _, each := range w.replicas {
			if !each.dead && each.group.Context().Err() == nil {
				living = append(living, each)
			}
		}
		if len(living) == 0 {
			w.join(3)
			continue
		}
		chosen := living[w.random.IntN(len(living))]
		switch action := w.random.IntN(10); {
		case action < 3 && len(living) < 5:
			w.join(3)
		case action < 5:
			w.kill(chosen)
		case action < 6:
			chosen.group.Stop()
			w.disturb()
		case action < 8:
			w.disturb()
			chosen.wire.partition()
		default:
			chosen.wire.heal()
			w.disturb()
		}
	}
	for _, each := range w.replicas {
		each.wire.heal()
	}
	w.server.Heal()
	w.disturb()
	last := w.join(3)
	w.pass(3 * w.lease())
	for slot := range hot {
		owners := 0
		for _, each := range w.replicas {
			if _, end, owned := each.member.Begin(w.t.Context(), slot); owned {
				owners++
				end()
			}
		}
		if owners > 1 {
			w.fault("in the end %d replicas own slot %d", owners, slot)
		}
	}
	if last.member.Counts().Owned == 0 {
		w.fault("the replica that joined last owns nothing")
	}
}

func TestASlotIsHandedOverWhenItsWorkHasEndedAndOthersAtOnce(t *testing.T) {
	inWorld(t, 1, sourcestest.Options{}, func(w *world) {
		first := w.join(0)
		w.pass(time.Second)
		if owned := first.member.Counts().Owned; owned != shards.Slots {
			t.Fatalf("the only replica owns %d slots", owned)
		}
		var ends [shards.Slots]func()
		for slot := range ends {
			_, end, owned := first.member.Begin(w.t.Context(), slot)
			if !owned {
				t.Fatalf("slot %d is not owned", slot)
			}
			if ends[slot] = end; slot%2 == 0 {
				end()
			}
		}
		second := w.join(0)
		w.pass(time.Second)
		counts := second.member.Counts()
		if counts.Owned < shards.Slots/10 || counts.Owned > shards.Slots*4/10 || counts.Members != 2 {
			t.Errorf("while half of the slots are busy, the second replica has %+v", counts)
		}
		for slot, end := range ends {
			if slot%2 == 1 {
				end()
			}
		}
		w.pass(time.Second)
		if owned := second.member.Counts().Owned; owned < shards.Slots*4/10 {
			t.Errorf("when no slot is busy, the second replica has %d", owned)
		}
		if owned := first.member.Counts().Owned + second.member.Counts().Owned; owned != shards.Slots {
			t.Errorf("%d of %d slots have an owner", owned, shards.Slots)
		}
	})
}

func TestAReplicaThatLeavesDeletesItsLeaseAndOthersTakeOverAtOnce(t *testing.T) {
	inWorld(t, 1, sourcestest.Options{}, func(w *world) {
		first, second := w.join(0), w.join(0)
		w.pass(time.Second)
		first.group.Stop()
		w.pass(time.Second)
		if owned := second.member.Counts().Owned; owned != shards.Slots {
			t.Errorf("a second after the first one left, the second one owns %d slots", owned)
		}
		if leases := w.leases(); len(leases) != 1 {
			t.Errorf("there are %d Leases, want 1", len(leases))
		}
	})
}

func TestAReplicaThatDiedLosesItsSlotsWithItsLease(t *testing.T) {
	inWorld(t, 1, sourcestest.Options{}, func(w *world) {
		first, second := w.join(0), w.join(0)
		w.pass(time.Second)
		half := second.member.Counts().Owned
		w.kill(first)
		w.pass(w.lease() - 3*time.Second)
		if owned := second.member.Counts().Owned; owned != half {
			t.Errorf("before the Lease has expired, the second one owns %d slots, want %d", owned, half)
		}
		w.pass(3*time.Second + 100*time.Millisecond)
		if owned := second.member.Counts().Owned; owned != shards.Slots {
			t.Errorf("when the Lease has expired, the second one owns %d slots", owned)
		}
		w.pass(2 * w.lease())
		if leases := w.leases(); len(leases) != 1 {
			t.Errorf("there are %d Leases, want 1: the one of a dead replica is to be deleted", len(leases))
		}
	})
}

func TestWorkEndsBeforeOthersMayTakeOver(t *testing.T) {
	inWorld(t, 1, sourcestest.Options{}, func(w *world) {
		first := w.join(0)
		w.pass(time.Second)
		ctx, end, owned := first.member.Begin(w.t.Context(), 0)
		defer end()
		if !owned || shards.Allowed(ctx) != nil {
			t.Fatal("the work is refused")
		}
		write, err := shards.BeginWrite(ctx)
		if err != nil || write.Left > shards.DefaultLeaseDuration || write.Left < shards.DefaultLeaseDuration-shards.DefaultRetryPeriod ||
			write.Spare != shards.DefaultLeaseDuration-shards.DefaultRenewDeadline {
			t.Fatalf("a write is %+v, %v", write, err)
		}
		write.End(time.Time{})
		if outside, err := shards.BeginWrite(w.t.Context()); outside != nil || err != nil {
			t.Errorf("a write outside of work is %+v, %v", outside, err)
		}
		first.wire.partition()
		started := time.Now()
		<-ctx.Done()
		if after := time.Since(started); after > shards.DefaultRenewDeadline || after < shards.DefaultRenewDeadline-shards.DefaultRetryPeriod {
			t.Errorf("the context ended after %v", after)
		}
		if write, err := shards.BeginWrite(ctx); write != nil || !errors.Is(err, shards.ErrLost) {
			t.Errorf("at the end of the work, a write is %+v, %v", write, err)
		}
		if !errors.Is(context.Cause(ctx), shards.ErrLost) || !errors.Is(shards.Allowed(ctx), shards.ErrLost) {
			t.Errorf("the cause is %v, a write fails with %v", context.Cause(ctx), shards.Allowed(ctx))
		}
		first.wire.heal()
		w.pass(w.lease())
		if owned := first.member.Counts(); owned.Owned != shards.Slots || owned.Lost != shards.Slots {
			t.Errorf("after the partition, the counts are %+v", owned)
		}
		if shards.Allowed(ctx) == nil {
			t.Error("work of before the partition may write")
		}
	})
}

func TestADeletedLeaseEndsTheTerm(t *testing.T) {
	inWorld(t, 1, sourcestest.Options{}, func(w *world) {
		first := w.join(0)
		w.pass(time.Second)
		ctx, end, _ := first.member.Begin(w.t.Context(), 0)
		defer end()
		lease := w.leases()[0]
		if err := w.server.Delete(&lease); err != nil {
			t.Fatal(err)
		}
		w.pass(3 * time.Second)
		if shards.Allowed(ctx) == nil {
			t.Error("work goes on although the Lease was deleted")
		}
		if owned := first.member.Counts().Owned; owned != shards.Slots {
			t.Errorf("the replica that has joined again owns %d slots", owned)
		}
	})
}

func TestALeaseSaysWhatAPersonNeeds(t *testing.T) {
	inWorld(t, 1, sourcestest.Options{}, func(w *world) {
		first := w.join(0)
		w.pass(time.Second)
		lease := w.leases()[0]
		claim, err := shards.ClaimOf(&lease)
		if err != nil || claim.Identity != first.member.Identity() || claim.Slots.Len() != shards.Slots || claim.Keys != 7 ||
			claim.Duration != shards.DefaultLeaseDuration || claim.Renewed.IsZero() || claim.Leaving {
			t.Errorf("the claim is %+v, %v", claim, err)
		}
		lease.Spec.HolderIdentity = nil
		if _, err := shards.ClaimOf(&lease); err == nil {
			t.Error("a Lease without a holder is a claim")
		}
		lease.ObjectMeta = metav1.ObjectMeta{}
		if _, err := shards.ClaimOf(&lease); err == nil {
			t.Error("an empty Lease is a claim")
		}
	})
}

func TestOptionsOutOfTheirRangesAreNamed(t *testing.T) {
	good := shards.Options{Group: "g", Namespace: "n", Identity: "i"}
	if _, err := good.WithDefaults(); err != nil {
		t.Fatal(err)
	}
	for option, change := range map[string]func(*shards.Options){
		"Group":         func(o *shards.Options) { o.Group = "Not a label" },
		"Namespace":     func(o *shards.Options) { o.Namespace = "" },
		"Identity":      func(o *shards.Options) { o.Identity = fmt.Sprintf("%0300d", 1) },
		"LeaseDuration": func(o *shards.Options) { o.LeaseDuration = 1500 * time.Millisecond },
		"RenewDeadline": func(o *shards.Options) { o.RenewDeadline = 15 * time.Second },
		"RetryPeriod":   func(o *shards.Options) { o.RetryPeriod = 9 * time.Second },
	} {
		wrong := good
		change(&wrong)
		if _, err := wrong.WithDefaults(); err == nil || !strings.Contains(err.Error(), option+" is") {
			t.Errorf("%s: the error is %v", option, err)
		}
	}
}

// A write that the API server has accepted may take effect until the Lease would have expired.
func TestAMemberThatIsBackGivesNoSlotAwayBeforeItsLeaseWouldHaveExpired(t *testing.T) {
	inWorld(t, 1, sourcestest.Options{}, func(w *world) {
		first := w.join(0)
		w.pass(time.Second)
		first.wire.partition()
		w.pass(shards.DefaultRenewDeadline + 500*time.Millisecond) // The term ends.
		first.wire.heal()
		second := w.join(0)
		w.pass(shards.DefaultLeaseDuration - shards.DefaultRenewDeadline - shards.DefaultRetryPeriod - time.Second)
		if owned := second.member.Counts().Owned; owned > 0 {
			t.Errorf("the second replica owns %d slots", owned)
		}
		w.pass(2 * w.lease())
		one, other := first.member.Counts().Owned, second.member.Counts().Owned
		if one+other != shards.Slots || other < shards.Slots/3 {
			t.Errorf("after that, the replicas own %d and %d slots", one, other)
		}
	})
}

func TestManyDeathsDoNotCostTheSurvivorItsLease(t *testing.T) {
	inWorld(t, 1, sourcestest.Options{}, func(w *world) {
		survivor := w.join(0)
		var dying []*replica
		for range 8 {
			dying = append(dying, w.join(0))
		}
		w.pass(10 * time.Second)
		slow := sourcestest.Fault{Verb: "delete", Resource: "leases", Action: sourcestest.Slow, For: 1500 * time.Millisecond, Times: sourcestest.Always}
		if err := w.server.Inject(slow); err != nil {
			t.Fatal(err)
		}
		for _, each := range dying {
			w.kill(each)
		}
		w.pass(w.lease() + time.Second)
		if owned := survivor.member.Counts().Owned; owned != shards.Slots {
			t.Errorf("a second after the Leases have expired, the survivor owns %d slots", owned)
		}
		w.pass(time.Minute)
		if lost := survivor.member.Counts().Lost; lost != 0 {
			t.Errorf("the survivor has lost %d slots", lost)
		}
		if leases := w.leases(); len(leases) != 1 {
			t.Errorf("there are %d Leases, want the one of the survivor", len(leases))
		}
	})
}
