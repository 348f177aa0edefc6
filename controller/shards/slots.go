package shards

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"iter"
	"math/bits"
	"slices"
)

// Slots is the number of slots into which keys are divided.
const Slots = 256

// SlotOf returns the slot of a key, such as "namespace/name".
func SlotOf(key string) int { return int(mix(hashOf(key)) >> 56) }

// SlotOfNamespace returns the slot of a namespace. It is the one by which an API server filters with
// ListOptions.ShardSelector: the highest bits of the FNV-1a hash. Names that differ only in their last
// characters are often in the same slot.
func SlotOfNamespace(namespace string) int { return int(hashOf(namespace) >> 56) }

func hashOf(key string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key)) // It never fails.
	return hash.Sum64()
}

// mix spreads the bits of a hash: it is the finalizer of MurmurHash3 (Austin Appleby, public domain). The
// high bits of FNV-1a hardly depend on the last characters.
func mix(hash uint64) uint64 {
	hash = (hash ^ hash>>33) * 0xff51afd7ed558ccd
	hash = (hash ^ hash>>33) * 0xc4ceb9fe1a85ec53
	return hash ^ hash>>33
}

// spare is the share of slots that a member may have above the average, in percent. A higher one balances
// less, and moves fewer slots when members come and go.
const spare = 10

// owners returns the member that each slot belongs to, by its index in members. Names are distinct. For each
// slot, members are ranked by a hash of both (Thaler and Ravishankar, "Using name-based mappings to increase
// hit rates", 1998). The first one that has room gets the slot (Mirrokni, Thorup and Zadimoghaddam,
// "Consistent hashing with bounded loads", 2016). It returns false without members.
func owners(members []string) (of [Slots]int, ok bool) {
	if len(members) == 0 {
		return of, false
	}
	most := (Slots*(100+spare) + 100*len(members) - 1) / (100 * len(members))
	hashes, loads, ranked := make([]uint64, len(members)), make([]int, len(members)), make([]int, len(members))
	for i, member := range members {
		hashes[i] = hashOf(member)
	}
	for slot := range Slots {
		score := func(member int) uint64 { return mix(hashes[member] ^ mix(uint64(slot)+1)) }
		for i := range ranked {
			ranked[i] = i
		}
		slices.SortFunc(ranked, func(a, b int) int {
			return cmp.Or(cmp.Compare(score(b), score(a)), cmp.Compare(members[a], members[b]))
		})
		for _, member := range ranked {
			if loads[member] < most {
				loads[member]++
				of[slot] = member
				break
			}
		}
	}
	return of, true
}

// Set is a set of slots.
type Set [Slots / 64]uint64

// Has reports whether a slot is in the set.
func (s Set) Has(slot int) bool { return s[slot/64]&(1<<(slot%64)) != 0 }

// Len returns the number of slots in the set.
func (s Set) Len() (slots int) {
	for _, word := range s {
		slots += bits.OnesCount64(word)
	}
	return slots
}

// All visits the slots of the set, in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(visit func(int) bool) {
		for slot := range Slots {
			if s.Has(slot) && !visit(slot) {
				return
			}
		}
	}
}

// Without returns the slots of s that are not in other.
func (s Set) Without(other Set) (rest Set) {
	for i := range s {
		rest[i] = s[i] &^ other[i]
	}
	return rest
}

// both returns the slots that are in both sets.
func (s Set) both(other Set) Set { return s.Without(s.Without(other)) }

func (s *Set) add(slot int) { s[slot/64] |= 1 << (slot % 64) }

// String returns the set as 64 hexadecimal digits, the lowest slots first.
func (s Set) String() string {
	var encoded []byte
	for _, word := range s {
		encoded = binary.LittleEndian.AppendUint64(encoded, word)
	}
	return hex.EncodeToString(encoded)
}

// parseSet returns the set that String has written as a text. An empty text is the empty set.
func parseSet(text string) (set Set, err error) {
	decoded, err := hex.DecodeString(text)
	switch {
	case err != nil:
		return set, fmt.Errorf("%q is not a set of slots: %w", text, err)
	case len(decoded) != 0 && len(decoded) != Slots/8:
		return set, fmt.Errorf("%q is not a set of %d slots: it has %d digits", text, Slots, len(text))
	}
	for i := range len(decoded) / 8 {
		set[i] = binary.LittleEndian.Uint64(decoded[8*i:])
	}
	return set, nil
}
