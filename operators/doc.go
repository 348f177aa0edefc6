// Package operators is the pipeline's own Rx operators, one a file, in the order in
// which an event passes them: [Debounce], then (through the cache) [Trigger], then
// [Reconcile]; [Settle] watches over them. [Retries] is a source beside Trigger: it asks rules
// again that panicked.
//
// Each operator is a [streams.Lift]: cold, its state belongs to one observation, errors pass
// through it in order (except Settle, for which they are a sign of life), and it returns
// only when its goroutines have.
//
// [Rules] and [Controllers] may change while they are used. [StageStats] counts what is inside an
// operator, and [Unfinished] holds what has not succeeded. After a burst an operator gives
// back the memory that it took.
package operators
