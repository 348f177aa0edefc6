package streams

import "github.com/reactivex/rxgo/v2"

// maxBatch bounds what operators of this package join into one batch. Beyond it the
// cost of the hop is spread thin enough (see BenchmarkMerge).
const maxBatch = 256

// Sink is where an operator sends. Its methods may be called from any goroutine of the
// observation, until the operator's function returns.
type Sink[T any] struct {
	done <-chan struct{}
	out  chan<- rxgo.Item
	then func(V any) any // what the receiver applies to what an item holds; nil for nothing
}

// Send sends a batch, which belongs to the receiver from then on; it waits while the
// receiver is busy. It is false when the observation has ended: return then.
func (s Sink[T]) Send(batch []T) bool { return s.forward(s.Item(batch)) }

// Error sends a notification of a failure. It is false as in Send.
func (s Sink[T]) Error(err error) bool { return s.forward(rxgo.Item{E: err}) }

// Channel is the sink as a channel, for an operator that sends in a select of its own.
// What it sends is made by Item, or is an [rxgo.Item] with an error in it.
func (s Sink[T]) Channel() chan<- rxgo.Item { return s.out }

// Item is what Send would send.
func (s Sink[T]) Item(batch []T) rxgo.Item { return s.item(batch) }

func (s Sink[T]) item(value any) rxgo.Item {
	if s.then != nil {
		value = s.then(value)
	}
	return rxgo.Item{V: value}
}

// forward sends an item. A full select costs 200 ns against 150 ns for the attempts
// before it (BenchmarkSend), so it is the last resort.
func (s Sink[T]) forward(item rxgo.Item) bool {
	select {
	case <-s.done:
		return false
	default:
	}
	select {
	case s.out <- item:
		return true
	default:
	}
	select {
	case s.out <- item:
		return true
	case <-s.done:
		return false
	}
}

// later is what an item holds whose batch is made when it is received, by the receiver.
// That saves a goroutine and a hop for what does not wait for anything.
type later[T any] interface {
	// take makes the batch, once, and an error that comes behind it.
	take() ([]T, error)
}

// taken is what an item holds.
func taken[T any](value any) ([]T, error) {
	switch value := value.(type) {
	case []T:
		return value, nil
	case later[T]:
		return value.take()
	}
	return nil, nil // An error alone.
}
