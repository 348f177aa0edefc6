package shards_test

import (
	"context"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
)

// unanswered makes a write that may take effect for some time.
func unanswered(ctx context.Context, t *testing.T, within time.Duration) {
	t.Helper()
	write, err := shards.BeginWrite(ctx)
	if err != nil {
		t.Fatal(err)
	}
	write.End(time.Now().Add(within))
}

// A write that was not answered may still take effect, so the next owner waits for it.
func TestASlotIsNotHandedOverWhileAWriteMayTakeEffect(t *testing.T) {
	inWorld(t, 1, sourcestest.Options{}, func(w *world) {
		const within = 10 * time.Second
		first := w.join(0)
		w.pass(time.Second)
		for slot := range shards.Slots / 2 {
			ctx, end, owned := first.member.Begin(w.t.Context(), slot)
			if !owned {
				t.Fatalf("slot %d is not owned", slot)
			}
			unanswered(ctx, t, within)
			unanswered(ctx, t, within/2) // It shortens nothing.
			end()
		}
		second := w.join(0)
		ownsHeld := func() (held bool) {
			for slot := range shards.Slots / 2 {
				_, end, owned := second.member.Begin(w.t.Context(), slot)
				end()
				held = held || owned
			}
			return held
		}
		w.pass(within - 100*time.Millisecond)
		if owned := second.member.Counts().Owned; owned < shards.Slots/8 || ownsHeld() {
			t.Errorf("before the writes are over, the second replica owns %d slots, held ones among them: %t", owned, ownsHeld())
		}
		w.pass(time.Second)
		if owned := second.member.Counts().Owned; owned < shards.Slots*4/10 || !ownsHeld() {
			t.Errorf("when the writes are over, the second replica owns %d slots", owned)
		}
	})
}

func TestAReplicaThatLeavesWaitsForItsUnansweredWrites(t *testing.T) {
	inWorld(t, 1, sourcestest.Options{}, func(w *world) {
		first, second := w.join(0), w.join(0)
		w.pass(time.Second)
		slot := 0
		ctx, end, owned := first.member.Begin(w.t.Context(), slot)
		for ; !owned; ctx, end, owned = first.member.Begin(w.t.Context(), slot) {
			slot++
		}
		unanswered(ctx, t, 5*time.Second)
		end()
		first.group.Stop()
		w.pass(4 * time.Second)
		if owned := second.member.Counts().Owned; owned != shards.Slots-1 || len(w.leases()) != 2 {
			t.Errorf("before the write is over, the second replica owns %d slots, and there are %d Leases", owned, len(w.leases()))
		}
		w.pass(2 * time.Second)
		if owned := second.member.Counts().Owned; owned != shards.Slots || len(w.leases()) != 1 {
			t.Errorf("when the write is over, the second replica owns %d slots, and there are %d Leases", owned, len(w.leases()))
		}
	})
}

// A write may outlive its work, such as one of several that a reconcile sends at once.
func TestASlotIsNotHandedOverDuringAWriteAndItsFormerOwnerWritesNoMore(t *testing.T) {
	inWorld(t, 1, sourcestest.Options{}, func(w *world) {
		first := w.join(0)
		w.pass(time.Second)
		var works [shards.Slots]context.Context
		var writes [shards.Slots]*shards.Write
		for slot := range works {
			ctx, end, owned := first.member.Begin(w.t.Context(), slot)
			write, err := shards.BeginWrite(ctx)
			if !owned || err != nil {
				t.Fatalf("slot %d is owned: %t, %v", slot, owned, err)
			}
			end()
			works[slot], writes[slot] = context.WithoutCancel(ctx), write
		}
		second := w.join(0)
		w.pass(3 * time.Second)
		if owned := second.member.Counts().Owned; owned > 0 {
			t.Errorf("during the writes, the second replica owns %d slots", owned)
		}
		for _, write := range writes {
			write.End(time.Time{})
		}
		w.pass(3 * time.Second)
		refused := 0
		for slot := range works {
			write, err := shards.BeginWrite(works[slot])
			if err != nil {
				refused++
				continue
			}
			write.End(time.Time{})
		}
		if owned := second.member.Counts().Owned; owned < shards.Slots*4/10 || refused != owned {
			t.Errorf("after the writes, the second replica owns %d slots, and the first one is refused %d writes", owned, refused)
		}
	})
}

// The Lease of a replica was lost while a write was not answered. The replica leaves when it can reach the API server again.
func TestAReplicaThatLeavesWithoutALeaseLetsItsClaimsExpire(t *testing.T) {
	inWorld(t, 1, sourcestest.Options{}, func(w *world) {
		first, second := w.join(0), w.join(0)
		w.pass(time.Second)
		for slot := range shards.Slots {
			if ctx, end, owned := first.member.Begin(w.t.Context(), slot); owned {
				unanswered(ctx, t, shards.DefaultLeaseDuration)
				end()
			}
		}
		first.wire.partition()
		began := time.Now()
		w.pass(time.Second)
		first.group.Stop()
		w.pass(shards.DefaultRenewDeadline - time.Second)
		first.wire.heal()
		w.pass(shards.DefaultLeaseDuration - shards.DefaultRetryPeriod - time.Since(began))
		if owned := second.member.Counts().Owned; owned > shards.Slots*6/10 {
			t.Errorf("%v after the last renewal, the second replica owns %d slots", time.Since(began), owned)
		}
		w.pass(w.lease())
		if owned := second.member.Counts().Owned; owned != shards.Slots {
			t.Errorf("after the Lease, the second replica owns %d slots", owned)
		}
	})
}
