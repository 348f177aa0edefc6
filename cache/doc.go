// Package cache holds a keyed view of the cluster, which a stream of events keeps up to date. It
// reports how far the view is in sync.
//
// # Guarantees
//
// A kind has one writer, the pipeline, and any number of readers, from any goroutine. Readers take
// no lock and never wait. Objects are immutable: an update replaces the object. To change an
// object, change a deep copy and write it to the API server.
//
// A read takes one snapshot of names and index values, and returns the current object for each
// name. Each object that an index returns has the requested value. An update that leaves the object
// under the same name and index values is visible at once. The addition, removal or move of an
// object is visible with the batch that carries its event, and never to Get before List.
//
// A list replaces, at once, the state of all objects that its source covers: a namespace or all
// namespaces. It yields a deletion for each object that is missing in it.
//
// Reads see own writes as soon as the API server has answered, however far the watch lags: see
// [Store.RecordWrite]. Own writes overlay the state of the watch. An own write leaves when the
// watch has passed it: with an event of the object, a list or a bookmark, of the same version or a
// later one. So an own write never hides a foreign change.
//
// # Levels
//
// [Cache.Level] returns the level that holds at the moment of the call. Each level includes the
// levels below it. It is the lowest level of all kinds that count.
//
// A kind does not count while the server refuses it before its first list, because it is not served
// or forbidden. A kind does not count either while it is optional and not Current.
// [Cache.Uncounted] returns such kinds.
//
//   - Starting: the first list of some kind is not complete.
//   - Listed: the first list of every kind is complete.
//   - Current: for every kind, the cache has everything up to a version that the server confirmed
//     within the bound of [Cache.SetMaxStaleness]. A list confirms its version as of the request
//     for it, a bookmark as of its arrival. A source that lost the server is not Current until it
//     has reached the version that the server reported on its return.
//   - OwnWritesVisible: the watch has passed every own write. A write to a namespace without a
//     source, or hidden by a label selector, does not count and is not visible.
//   - Settled: nothing is pending in the pipeline (see [Work]), and nothing has changed for
//     [Loop.QuietPeriod]. These count as changes: what a reader can see, requests of streams, and
//     attempts that an event caused or that wrote something. An event that repeats what is held does
//     not count. Neither does a routine check, or another failure of a key that failed before.
//   - Converged: Settled, and the last attempt of every key succeeded and asked for nothing more.
//
// Liveness: once faults have ended and the cluster is quiet, Settled returns within a bound. It is the
// sum of [Loop.QuietPeriod], one bookmark interval, and the longest remaining backoff of a key that
// counts. If the server sends no bookmarks, three quarters of the bound of [Cache.SetMaxStaleness]
// take the place of the bookmark interval. A hanging request adds up to 70 s, until it times out. A
// source backs off for up to 10 s before it reconnects, and for up to 10 s before it lists after a
// probe. A server that sends Retry-After is asked again only after that time.
//
// The loop duration measures loops: the time from an event to the echo of the last write that it
// led to. It leaves out a loop during which the source lost the server, and an echo that a list or
// a bookmark brought. It also leaves out the time that a request waited for its controller's kinds.
// No single loop counts as more than [LoopOptions].Ceiling.
//
// An own write that is answered with a lower version than the server had confirmed before shows that
// versions went back. Readers see it, and the level is Current until the source finds out.
//
// A limit: only versions that went back show that a cluster was restored from a backup. If the
// cluster writes past the earlier versions before the source asks for anything, nothing shows it.
// Until the next list, a version that was used twice then stands for its first state.
//
// # Odd cases
//
// The cache handles odd events as follows. It counts them ([Store.Anomalies]) and logs them:
//
//	deletion of an unknown key              passed on, there is nothing to remove
//	creation of a known key, another uid    the old object is removed, the new one added
//	apply older than what is held           dropped, passed on as Unchanged
//	apply older than a remembered deletion  dropped, passed on as Unchanged
//	deletion older than what is held        dropped, passed on as Unchanged
//	list older than what is held            newer objects stay; dropped, if the cache has all of it already
//	list after the server's versions went   replaces everything, tombstones and own writes from before it
//	  back (a restored backup)
//	object without a version                compared by its contents
//
// A deletion is remembered for 15 minutes, and the latest 4096 of a kind at most.
//
// # Memory
//
// [Store.Bytes] estimates it. In addition to the object, its place takes about 56 bytes, and 51 in
// each index. Names are not copied.
package cache
