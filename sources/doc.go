// Package sources provides the outside world as streams of events.
//
// A source is cold: an observation opens its connections, and the end of the observation closes
// them. A source never gives up. It reports each failure as a [streams.Error] and tries again after
// a backoff.
//
//   - [Watch] emits the objects of a kind on an API server, in the vocabulary of [streams.Event].
//   - [Files] emits the files below a directory, in the vocabulary of [FileEvent]. No change is
//     lost.
//   - [Interval] emits ticks that neither drift nor pile up.
//   - [Channel] emits the values of a Go channel.
package sources
