// Package cache is the keyed view of the cluster that a stream of events keeps up to
// date, and that tells how far it is in sync.
//
// # Guarantees
//
// A kind has one writer, the pipeline, and any number of readers, from any goroutine.
// Readers take no lock and never wait: each read works on one immutable state, in which
// objects and indexes agree. Objects are immutable: an update replaces the object; to
// change one, change a deep copy and write it to the API server.
//
// A list of the source replaces the state of its kind at once, and yields the deletions
// that were missed.
//
// Reads see own writes as soon as the API server has answered, however far the watch
// lags: see [Store.Wrote]. They are laid over what the watch says, and leave when the
// watch has passed them: with an event of the object, or a list or bookmark, of their
// version or a later one. So a foreign change is never hidden behind an own one.
//
// # Odd cases
//
// What should not happen is decided, counted ([Store.Anomalies]) and logged:
//
//	deletion of an unknown key              passed on, there is nothing to remove
//	creation of a known key, another uid    the old object is removed, the new one added
//	apply older than what is held           dropped, passed on as Touched
//	apply older than a remembered deletion  dropped, passed on as Touched
//	deletion older than what is held        dropped, passed on as Touched
//	list older than what is held            dropped
package cache
