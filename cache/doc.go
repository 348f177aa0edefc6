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
// lags: see [Store.RecordWrite]. They are laid over what the watch says, and leave when the
// watch has passed them: with an event of the object, or a list or bookmark, of their
// version or a later one. So a foreign change is never hidden behind an own one.
//
// # Levels
//
// [Cache.Level] returns what holds at the moment of the call. Each level includes those below it.
// It is the lowest level of all kinds that count. A kind does not count while the server refuses
// it before its first list (it is not served, or forbidden), and while it is optional and not
// Current. [Cache.NotCounted] names such kinds.
//
//   - Starting: the first list of some kind is not complete.
//   - Listed: the first list of every kind is complete.
//   - Current: for every kind, the cache has everything up to a version that the server confirmed
//     not longer ago than the bound of [Cache.SetMaxStaleness]. A list confirms its version as of
//     the request for it, a bookmark as of its arrival. A source that lost the server is not
//     Current until it has reached the version that the server reported on its return.
//   - OwnWritesVisible: the watch has passed every own write. A write to a namespace
//     without a source, or hidden by a label selector, does not count and is not visible.
//   - Settled: nothing is pending in the pipeline (see [Work]), and nothing has changed for
//     [Loop.QuietPeriod]. Only changes that a reader can see, and attempts, end a calm: an event that
//     repeats what is held does not.
//   - Converged: Settled, and the last attempt of every key succeeded and asked for nothing more.
//
// Liveness: once faults have ended and the cluster is quiet, Settled returns within Loop.Quiet,
// one bookmark interval (or three quarters of the bound, from a server that sends none), and the
// longest remaining backoff of a key that counts. A request that hangs at that time first times
// out, after 70 s.
//
// The loop duration measures loops: the time from an event to the echo of the last write that it
// led to. It leaves out a loop during which the source lost the server, an echo that a list or a
// bookmark brought, and the time that a request waited for its controller's kinds. No single
// loop counts as more than [LoopOptions].Ceiling.
//
// A limit: that a cluster was restored from a backup shows by versions that are lower than
// before. If it has written past those before the source asks for anything, versions that were
// used twice are taken for what they were, until the next list.
//
// # Odd cases
//
// What should not happen is decided, counted ([Store.Anomalies]) and logged:
//
//	deletion of an unknown key              passed on, there is nothing to remove
//	creation of a known key, another uid    the old object is removed, the new one added
//	apply older than what is held           dropped, passed on as Unchanged
//	apply older than a remembered deletion  dropped, passed on as Unchanged
//	deletion older than what is held        dropped, passed on as Unchanged
//	list older than what is held            what is held newer stays; dropped, if all of it is in already
//	list after the server's versions went   replaces everything, tombstones and own writes from before it
//	  back (a restored backup)
//	object without a version                compared by its contents
//
// # Memory
//
// [Store.Bytes] estimates it. Besides the object, its place takes about 56 bytes, and 51 in
// each index. Names are not copied.
package cache
