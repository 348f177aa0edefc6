// Package history remembers the last attempts to reconcile each object, and what led to them. It answers why
// an object was reconciled, what the attempt waited for, and what it wrote.
//
// A [History] follows the changes of a cache and the results of [operators.Reconcile]. It stores what it is
// given, and works an answer out only for a caller of [History.Of]: the fields that a change concerns, the waits
// of an attempt, and when the cache has shown a write. So following costs little. Its memory has a bound, and the
// oldest entries go first.
//
// An answer has names of objects, paths of fields, times and the messages of errors. It never has the value of
// a field.
package history
