// Command corebench compares the core of Bellerophon with client-go, side by side in one process:
//
//	sources.Watch, Merge, Debounce, cache, Trigger, Reconcile
//	SharedIndexInformer, event handlers, rate-limiting workqueue, workers
//
// The same fake API server feeds both sides. It is an http.RoundTripper behind a REST client, so
// that both sides run client-go's own watch and Reflector, as in production. It serves two kinds,
// a custom resource and the StatefulSet that it owns, and has two feeds:
//
//   - decoded: an event costs a shallow copy of an existing object. This feed shows the core
//     without the decoder.
//   - wire: events are JSON (custom resource) and protobuf (StatefulSet), and the real decoders
//     decode them. This feed shows how much of a difference remains in production.
//
// Both sides drop managed fields, index by namespace and owner, run the same number of workers,
// and call the same reconciler. The reconciler reads both objects from the cache and records the
// events that it has seen. An event counts as seen when a reconcile of its object starts that
// reads this event's version, or a later one, from the cache. A run ends when all events are
// seen, and fails if they are not.
//
// A third side, the generator, only drains the watches and keeps the same record. Its CPU time is
// the CPU time of the fake API server, and is subtracted where CPU time is compared.
//
// Each measurement is repeated, alternately in forward and in reverse order (ABBA). The output
// consists of lines for benchstat, a table of medians, and one line for each goal.
package main
