package streams

// Selection is the part of a kind's objects that a process keeps, because other processes keep the rest. A
// kind without a selection is kept whole. A Selection is immutable; another one takes its place.
type Selection struct {
	// Number counts how often the selection of the kind has grown, from 1 on. Until the source has emitted
	// [Selected] with the number, the kind is not current.
	Number int64

	// Keeps reports whether an object belongs to the selection, and the number of the selection from which
	// on it always did. It must be fast, and safe for use by many goroutines.
	Keeps func(object Object) (since int64, kept bool)

	// Server is the selector with which an API server sends no objects outside of the selection, as
	// metav1.ListOptions.ShardSelector. It is empty if no such selector exists.
	Server string
}

// Has reports whether an object belongs to the selection. Every object belongs to a nil selection.
func (s *Selection) Has(object Object) bool {
	if s == nil {
		return true
	}
	_, kept := s.Keeps(object)
	return kept
}
