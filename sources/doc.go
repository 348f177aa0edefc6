// Package sources is the outside world as streams of events.
//
// A source is cold: an observation opens its connections, and its end closes them. It
// never gives up: what fails it reports as a [streams.Error] and tries again after a
// backoff.
//
//   - [Watch] is the objects of a kind on an API server, in the vocabulary of
//     [streams.Event].
//   - [Files] is the files below a directory, in the vocabulary of [FileEvent]. No change
//     is lost.
//   - [Interval] is ticks that do not drift and do not pile up.
//   - [Channel] is the values of a Go channel.
package sources
