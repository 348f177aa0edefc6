// Package sources is the outside world as streams of events.
//
// A source is cold: an observation opens its connections, and its end closes them. It
// never gives up: what fails it reports as a [streams.Error] and tries again after a
// backoff. It tells what it saw in the vocabulary of [streams.Event].
package sources
