// Package cache is the keyed view of the cluster that a stream of events keeps up to
// date, and that tells how far it is in sync.
//
// # Guarantees
//
// A kind has one writer, the pipeline, and any number of readers, from any goroutine.
// Readers take no lock and never wait. Objects are immutable: an update replaces the
// object; to change one, change a deep copy and write it to the API server.
//
// A read works on one state of names and index values, and finds under each the object as
// it is now: what an index yields has that value. An update that moves an object nowhere is
// visible at once; what comes, goes or moves is visible with the batch that told of it, and
// never to Get before List.
//
// A list replaces, at once, the state of what its source covers, a namespace or all, and
// yields the deletions that were missed.
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
//	list older than what is held            what is held newer stays; dropped, if all of it is in already
//
// # Memory
//
// [Store.Bytes] estimates it. Besides the object, its place takes about 56 bytes, and 51 in
// each index. Names are not copied.
package cache
