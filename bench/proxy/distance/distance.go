// Package distance puts a network with a round-trip time between a client and a server on loopback.
//
// Each direction of a connection delays its bytes by half the round trip. Bytes keep their order, and those
// in flight do not wait for each other. Opening a connection takes a round trip. There is no loss, no jitter,
// no limit of the bandwidth and no slow start. So the time of a real network with the same round trip is
// longer. A busy machine may deliver bytes later than asked, and never earlier.
package distance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// Longest is the longest round trip.
const Longest = time.Second

// inFlight is how many pieces a direction holds before it stops reading, as a full window would. A piece has
// pieceSize bytes at most.
const (
	inFlight  = 512
	pieceSize = 32 << 10
)

// Relay is a running network before a server. Its methods may be called from any goroutine.
type Relay struct {
	accepting net.Listener
	group     *lifecycle.Group
}

// Open listens on a free loopback port, and passes connections on to the address of a server until Close. The
// round trip is above 0 and at most Longest.
func Open(to string, roundTrip time.Duration) (*Relay, error) {
	if roundTrip <= 0 || roundTrip > Longest {
		return nil, fmt.Errorf("open a network: the round trip is %v; allowed is above 0 to %v", roundTrip, Longest)
	}
	accepting, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a network: %w", err)
	}
	r := &Relay{accepting, lifecycle.New(context.Background())}
	r.group.Go("network", func(ctx context.Context) error {
		for {
			near, err := accepting.Accept()
			if err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
			r.group.Go("connection", func(ctx context.Context) error {
				far, err := new(net.Dialer).DialContext(ctx, "tcp", to)
				if err != nil {
					_ = near.Close() // The client sees the end that it would see of a server that is down.
					return nil
				}
				join(ctx, near, far, roundTrip)
				return nil
			})
		}
	})
	return r, nil
}

// Address returns the host and port that clients connect to.
func (r *Relay) Address() string { return r.accepting.Addr().String() }

// Close ends all connections.
func (r *Relay) Close() error {
	r.group.Stop()
	closed := r.accepting.Close()
	return errors.Join(r.group.Wait(), closed)
}

// join passes bytes between a client and a server until both directions have ended, one has failed, or the
// context ends. Then it closes both connections.
func join(ctx context.Context, near, far net.Conn, roundTrip time.Duration) {
	both := lifecycle.New(ctx)
	closeBoth := func() { _, _ = near.Close(), far.Close() }
	defer closeBoth()
	defer context.AfterFunc(both.Context(), closeBoth)() // Ends reads and writes that wait.
	opened := time.Now().Add(roundTrip)
	pass(both, near, far, roundTrip/2, opened)
	pass(both, far, near, roundTrip/2, opened)
	_ = both.Wait() // A failure is the end of a connection.
}

// piece is a number of bytes that arrive at a time. Without bytes, it is the end of a direction.
type piece struct {
	bytes []byte
	at    time.Time
}

// pass starts one direction. Nothing is sent before the connection is open.
func pass(group *lifecycle.Group, from, to net.Conn, delay time.Duration, opened time.Time) {
	sent := make(chan piece, inFlight)
	group.Go("send", func(ctx context.Context) error {
		buffer := make([]byte, pieceSize)
		for {
			n, err := from.Read(buffer)
			now := time.Now()
			if now.Before(opened) {
				now = opened
			}
			pieces := []piece{{bytes.Clone(buffer[:n]), now.Add(delay)}}
			if n == 0 {
				pieces = nil
			}
			if err != nil {
				pieces = append(pieces, piece{at: now.Add(delay)})
			}
			for _, one := range pieces {
				select {
				case sent <- one:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err != nil {
				return nil
			}
		}
	})
	group.Go("arrive", func(ctx context.Context) error {
		timer := time.NewTimer(0)
		defer timer.Stop()
		for {
			var next piece
			select {
			case next = <-sent:
			case <-ctx.Done():
				return ctx.Err()
			}
			timer.Reset(time.Until(next.at))
			select {
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			if next.bytes == nil {
				return closeWrite(to)
			}
			if _, err := to.Write(next.bytes); err != nil {
				return err
			}
		}
	})
}

// closeWrite ends one direction. The other one may go on.
func closeWrite(of net.Conn) error {
	if half, can := of.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return of.Close()
}
