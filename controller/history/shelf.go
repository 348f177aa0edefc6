package history

// maxSpare is how many forgotten entries a shelf keeps to use them again.
const maxSpare = 16

// shelf remembers entries by their key, and by their age. A full shelf forgets one entry for each new one. It then uses
// that entry's memory for the next one, so that it allocates nothing.
type shelf[K comparable, V any] struct {
	lines          map[K]line[K, V]
	oldest, newest *entry[K, V]
	bytes          int
	spare          *entry[K, V] // forgotten ones, linked by newer
	spares         int
}

// entry is a remembered value.
type entry[K comparable, V any] struct {
	key          K
	value        V
	bytes        int
	older, newer *entry[K, V] // of all entries
	next         *entry[K, V] // of the same key, the one that is newer
}

// line has the entries of a key, which are linked by next.
type line[K comparable, V any] struct {
	first, last *entry[K, V]
	count       int
}

// add adds the newest entry. The caller fills its value.
func (s *shelf[K, V]) add(key K, bytes int) (*entry[K, V], int) {
	made := s.spare
	if made != nil {
		s.spare, s.spares = made.newer, s.spares-1
		made.newer = nil
	} else {
		made = &entry[K, V]{}
	}
	made.key, made.bytes, made.older = key, bytes, s.newest
	s.bytes += bytes
	if s.newest == nil {
		s.oldest = made
	} else {
		s.newest.newer = made
	}
	s.newest = made
	of := s.lines[key]
	if of.last == nil {
		of.first = made
	} else {
		of.last.next = made
	}
	of.last, of.count = made, of.count+1
	s.lines[key] = of
	return made, of.count
}

// forget forgets an entry that is the oldest one of its key. The caller must not use it afterwards.
func (s *shelf[K, V]) forget(gone *entry[K, V]) {
	if of := s.lines[gone.key]; of.count == 1 {
		delete(s.lines, gone.key)
	} else {
		s.lines[gone.key] = line[K, V]{gone.next, of.last, of.count - 1}
	}
	if gone.older == nil {
		s.oldest = gone.newer
	} else {
		gone.older.newer = gone.newer
	}
	if gone.newer == nil {
		s.newest = gone.older
	} else {
		gone.newer.older = gone.older
	}
	s.bytes -= gone.bytes
	if *gone = (entry[K, V]{}); s.spares < maxSpare {
		gone.newer, s.spare = s.spare, gone
		s.spares++
	}
}
