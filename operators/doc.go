// Package operators holds the pipeline's own Rx operators, one a file, in the order in which an
// event passes them: [Debounce], then (through the cache) [Trigger], then [Reconcile]. [Settle]
// watches over them. [Retries] is a source beside Trigger: it calls rules again that panicked.
//
// Each operator is a [streams.Lift]: it is cold, and its state belongs to one observation. Errors
// pass through it in order, except in Settle, where an error counts as a sign of activity. An
// operator returns only when its goroutines have returned.
//
// [Rules] and [Controllers] may change while they are in use. [StageStats] counts what is inside an
// operator, and [Unfinished] holds the keys that have not succeeded. After a burst an operator
// frees the memory that it took.
package operators
