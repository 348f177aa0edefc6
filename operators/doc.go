// Package operators is the pipeline's own Rx operators, one a file, in the order in
// which an event passes them: [Debounce], then (through the cache) [Trigger], then
// [Reconcile]; [Settle] watches over them.
//
// Each is a [streams.Lift]: cold, its state belongs to one observation, errors pass
// through it in order (except Settle, for which they are a sign of life), and it returns
// only when its goroutines have.
package operators
