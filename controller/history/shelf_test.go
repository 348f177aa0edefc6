package history

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The model is a slice, oldest first.
func TestAShelfRemembersWhatASliceWould(t *testing.T) {
	type known struct{ key, value, bytes int }
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		tested, model := shelf[int, int]{lines: map[int]line[int, int]{}}, []known(nil)
		for i := range 500 {
			if key := random.IntN(5); random.IntN(3) > 0 {
				made, count := tested.add(key, i%7)
				made.value = i
				model = append(model, known{key, i, i % 7})
				if want := len(slices.DeleteFunc(slices.Clone(model), func(of known) bool { return of.key != key })); count != want {
					t.Fatalf("seed %d: %d entries of the key; want %d", seed, count, want)
				}
			} else if random.IntN(2) == 0 && tested.oldest != nil {
				tested.forget(tested.oldest)
				model = model[1:]
			} else if first := tested.lines[key].first; first != nil {
				tested.forget(first)
				place := slices.IndexFunc(model, func(of known) bool { return of.key == key })
				model = slices.Delete(model, place, place+1)
			}
			bytes, place := 0, tested.oldest
			for _, want := range model {
				if place == nil || place.key != want.key || place.value != want.value {
					t.Fatalf("seed %d: the entry is %+v; want %+v", seed, place, want)
				}
				bytes, place = bytes+want.bytes, place.newer
			}
			if place != nil || tested.bytes != bytes {
				t.Fatalf("seed %d: %+v is left, and there are %d bytes; want %d", seed, place, tested.bytes, bytes)
			}
			for key := range 5 {
				next := tested.lines[key].first
				for _, want := range model {
					if want.key == key {
						if next == nil || next.value != want.value {
							t.Fatalf("seed %d: the next entry of %d is %+v; want %+v", seed, key, next, want)
						}
						next = next.next
					}
				}
				if next != nil {
					t.Fatalf("seed %d: %+v of %d is left", seed, next, key)
				}
			}
		}
	}
}

func TestAFullShelfAllocatesNothing(t *testing.T) {
	tested, next := shelf[int, int]{lines: map[int]line[int, int]{}}, 0
	turn := func() {
		next++
		if tested.add(next%100, 1); tested.bytes > 50 {
			tested.forget(tested.oldest)
		}
	}
	for range 1000 {
		turn()
	}
	if allocations := testing.AllocsPerRun(1000, turn); allocations > 0 {
		t.Errorf("%v allocations for each entry", allocations)
	}
}
