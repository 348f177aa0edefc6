// Package streams provides typed, batched event streams on top of RxGo observables, and the
// events that Bellerophon's streams carry.
//
// # Guarantees
//
// A [Stream] is cold: each observation builds its own pipeline with its own state. An observation
// ends when its source ends or when its context ends. When the channel of an observation is
// closed, everything upstream of it has returned.
//
// Values are sent in batches, in order. An error is a notification with a place in that order: it
// names what failed (see [Error]) and does not end the stream. A stream ends when its channel is
// closed. A panic in a stage becomes an error too. It ends the observation, because the state of
// the stage can no longer be trusted.
//
// Nothing is dropped before the observation's context ends, except by [Share] and [Subject]: an
// observer that falls behind misses values, and receives their number in a [Lagged].
//
// # Why not RxGo's own operators
//
// RxGo is the interface: [From] accepts an [rxgo.Observable] and [Stream.Observable] returns one,
// so users can plug in operators of their own. The stateful operators of RxGo lose items, leak
// goroutines or panic when cancelled. Bellerophon therefore has its own stages: see [Lift].
package streams
