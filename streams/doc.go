// Package streams is the carrier of Bellerophon: typed, batched event streams over
// RxGo observables, and the vocabulary that travels on them.
//
// # Guarantees
//
// A [Stream] is cold: each observation builds a pipeline of its own, with state of its
// own. It ends when its source ends or when the context of the observation does. When
// the channel of an observation is closed, everything upstream of it has returned.
//
// Values travel in batches, in order. An error is a notification that takes its place
// in that order: it names what failed (see [Error]) and ends nothing. The end of a
// stream is its closed channel. A panic in an operator becomes an error too, and ends
// the observation, because the operator's state can no longer be trusted.
//
// Nothing is dropped, except after the end of the observation's context. [Share] alone
// lets an observer miss what others have read long ago; it says so, and how much.
//
// # Why not RxGo's own operators
//
// RxGo is the interface here: an [rxgo.Observable] goes in by [From] and comes out by
// [Stream.Observable], so users plug in operators of their own. Its stateful operators
// lose items, leak goroutines or panic when cancelled, so Bellerophon has its own, all
// of one shape: see [Lift].
package streams
