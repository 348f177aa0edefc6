package page

import (
	"hash/maphash"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxItems bounds the items of one frame, and so 200 in a second.
const maxItems = int(200 * framePause / time.Second)

// sample keeps some of the values that came since the last frame. It prefers objects by the hash of their names. So an object
// is left out as a whole or shown on its whole way, from its event to its attempt.
type sample[T any] struct {
	kept []sampled[T] // at most maxItems, in their order
	came int
}

type sampled[T any] struct {
	value T
	rank  uint64
}

// add adds a value about an object. create makes the value if it is kept.
func (s *sample[T]) add(seed maphash.Seed, object types.NamespacedName, create func() T) {
	s.came++
	rank := maphash.Comparable(seed, object)
	if len(s.kept) == maxItems {
		last := s.last()
		if s.kept[last].rank <= rank {
			return
		}
		s.remove(last)
	}
	s.kept = append(s.kept, sampled[T]{create(), rank})
}

// last returns the index of the value that is left out first.
func (s *sample[T]) last() (last int) {
	for i := range s.kept {
		if s.kept[i].rank >= s.kept[last].rank {
			last = i
		}
	}
	return last
}

func (s *sample[T]) remove(index int) { s.kept = append(s.kept[:index], s.kept[index+1:]...) }

// take returns at most a number of values, and how many came beside them. The sample is empty afterwards.
func (s *sample[T]) take(most int) (values []T, out int) {
	for len(s.kept) > most {
		s.remove(s.last())
	}
	values = make([]T, 0, len(s.kept))
	for i := range s.kept {
		values = append(values, s.kept[i].value)
	}
	out = s.came - len(values)
	clear(s.kept)
	s.kept, s.came = s.kept[:0], 0
	return values, out
}

// divide divides a number of places among three that want some. What one leaves goes to the others.
func divide(places int, wanted [3]int) (given [3]int) {
	for left := true; places > 0 && left; {
		left = false
		for i := range wanted {
			if given[i] < wanted[i] && places > 0 {
				given[i]++
				places--
				left = true
			}
		}
	}
	return given
}
