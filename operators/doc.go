// Package operators provides the Rx operators of the pipeline. An event passes [Debounce], the
// cache, [Trigger] and [Reconcile]. [Settle] reports when nothing has happened for a while.
// [Retries] is a source beside Trigger: it calls rules that panicked again.
//
// Each operator is cold, and its state belongs to one observation. Trigger is a
// [streams.MapOnReceive], Retries a [streams.Create]; the others are a [streams.Lift]. Errors pass
// through it in order, except in Settle, where an error counts as a sign of activity. An operator
// returns only when its goroutines have returned.
//
// [Rules] and [Controllers] may change while they are in use. [StageStats] counts what is inside an
// operator, and [Unfinished] holds the keys that have not succeeded. After a burst an operator
// frees the memory that it took.
package operators
