// Command core compares the core of Bellerophon with client-go, side by side in one
// process:
//
//	sources.Watch, Merge, Debounce, cache, Trigger, Reconcile
//	SharedIndexInformer, event handlers, rate-limiting workqueue, workers
//
// Both are fed by the same fake API end: an http.RoundTripper behind a REST client, so
// that both run client-go's own watch and Reflector, as in production. It serves two
// kinds, a custom resource and the StatefulSet that it owns, and has two feeds:
//
//   - decoded: an event costs a shallow copy of an object that is there. It shows the
//     core, without the decoder.
//   - wire: events are JSON (custom resource) and protobuf (StatefulSet), and the real
//     decoders decode them. It shows what is left of a difference in production.
//
// Both sides drop managed fields, index by namespace and owner, run the same number of
// workers, and call the same reconciler, which reads both objects from the cache. That
// reconciler also keeps the books: an event counts as seen when a reconcile of its object
// starts that reads it, or a later one, from the cache. A run ends when all events are
// seen, and fails if they are not.
//
// A third side, the generator, only drains the watches and keeps the same books. Its CPU
// time is that of the fake API end, and is subtracted where CPU time is compared.
//
// Each measurement is made several times, in turn forwards and backwards (ABBA). The
// output is lines that benchstat reads, a table of medians for people, and one line per
// goal.
package main
