package shards

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/sharding"
)

func TestEveryMemberHasAFairShareAndFewSlotsMoveWhenOneJoins(t *testing.T) {
	var members []string
	before, _ := owners(nil)
	for n := 1; n <= 40; n++ {
		members = append(members, fmt.Sprintf("operator-%d_%x", n, n*n))
		after, ok := owners(members)
		if !ok {
			t.Fatalf("%d members own nothing", n)
		}
		loads, moved := make([]int, n), 0
		for slot, owner := range after {
			loads[owner]++
			if n > 1 && owner != before[slot] {
				moved++
			}
		}
		if most, least := slices.Max(loads), slices.Min(loads); most > Slots*11/(10*n)+1 || n <= 10 && least < Slots*6/(10*n) {
			t.Errorf("of %d members one has %d slots and one %d", n, most, least)
		}
		if n > 1 && moved > 3*Slots/n {
			t.Errorf("with the member %d, %d slots move, which is more than three fair shares of %d", n, moved, Slots/n)
		}
		before = after
	}
}

func TestTheOrderOfMembersDoesNotMatter(t *testing.T) {
	one, _ := owners([]string{"a", "b", "c"})
	other, _ := owners([]string{"c", "a", "b"})
	for slot := range Slots {
		if []string{"a", "b", "c"}[one[slot]] != []string{"c", "a", "b"}[other[slot]] {
			t.Fatalf("slot %d has two owners", slot)
		}
	}
	if _, exists := owners(nil); exists {
		t.Error("without members there is an owner")
	}
}

func TestKeysThatDifferInTheirLastCharactersSpread(t *testing.T) {
	loads := [Slots]int{}
	const keys = 50_000
	for i := range keys {
		loads[SlotOf(fmt.Sprintf("default/object-%05d", i))]++
	}
	if most := slices.Max(loads[:]); most > keys/Slots*3/2 {
		t.Errorf("one slot has %d keys, the average is %d", most, keys/Slots)
	}
}

// The API server hashes a namespace as package sharding of apimachinery does.
func TestTheSlotOfANamespaceIsTheOneOfTheAPIServer(t *testing.T) {
	for _, namespace := range []string{"", "default", "kube-system", "tenant-17"} {
		if want := sharding.HashField(namespace)[:2]; fmt.Sprintf("%02x", SlotOfNamespace(namespace)) != want {
			t.Errorf("the slot of %q is %02x, want %s", namespace, SlotOfNamespace(namespace), want)
		}
	}
}

func TestASetIsReadAsItWasWritten(t *testing.T) {
	var set Set
	for _, slot := range []int{0, 63, 64, 200, 255} {
		set.add(slot)
	}
	again, err := parseSet(set.String())
	if err != nil || again != set || set.Len() != 5 || !slices.Equal(slices.Collect(set.All()), []int{0, 63, 64, 200, 255}) {
		t.Errorf("%s is read as %s, %v", set, again, err)
	}
	if empty, err := parseSet(""); err != nil || empty != (Set{}) {
		t.Errorf("no text is read as %s, %v", empty, err)
	}
	for _, wrong := range []string{"zz", "00", set.String() + "00"} {
		if _, err := parseSet(wrong); err == nil {
			t.Errorf("%q is read as a set", wrong)
		}
	}
}
