// Package owned holds the children and pods of all kinds of Bellerophon as the cache keeps them. The
// controllers of one manager share one watch and one projection of a kind, so all of them take their
// children from one [Kinds].
package owned
