package proxy

import (
	"bytes"
	"encoding/binary"
	"io"
	"sync"
	"time"

	"github.com/gobwas/ws"
)

// framing splits the next event off the bytes received of a watch. It returns the event, which
// may be empty, and the number of bytes that the event occupies, or 0 if the event is incomplete.
type framing func(received []byte) (event []byte, size int)

// lines implements framing for events that are lines of JSON.
func lines(received []byte) ([]byte, int) {
	end := bytes.IndexByte(received, '\n')
	return received[:max(0, end)], end + 1
}

// lengthDelimited implements framing for events that follow their length in four bytes.
func lengthDelimited(received []byte) ([]byte, int) {
	const head = 4
	if len(received) < head {
		return nil, 0
	}
	size := head + int(binary.BigEndian.Uint32(received))
	if len(received) < size {
		return nil, 0
	}
	return received[head:size], size
}

// messages implements framing for events that are messages of a WebSocket, each in one frame. The
// API server sends no other frames than these and control frames, such as pings.
func messages(received []byte) ([]byte, int) {
	reader := bytes.NewReader(received)
	header, err := ws.ReadHeader(reader)
	if err != nil {
		return nil, 0 // The header is incomplete.
	}
	head := len(received) - reader.Len()
	size := head + int(header.Length)
	if len(received) < size {
		return nil, 0
	}
	if !header.OpCode.IsData() {
		return nil, size
	}
	return received[head:size], size
}

// tap reads a watch for the contender. It parses the received bytes at the next Read or at Close.
// The contender has them then, so parsing delays no event.
type tap struct {
	io.ReadCloser
	framing framing

	mu       sync.Mutex // A WebSocket is closed while it is read.
	received []byte     // of incomplete events, and of events that were not parsed yet
	pieces   []piece
	passed   func([]arrival)
}

// piece is when the received bytes up to an end arrived.
type piece struct {
	end int
	at  time.Time
}

// arrival is an event and the time at which its last byte arrived. The event is valid only during
// the call of passed.
type arrival struct {
	event []byte
	size  int
	at    time.Time
}

func (t *tap) Read(into []byte) (int, error) {
	t.look()
	n, err := t.ReadCloser.Read(into)
	if n > 0 {
		at := time.Now()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.received = append(t.received, into[:n]...)
		t.pieces = append(t.pieces, piece{end: len(t.received), at: at})
	}
	return n, err
}

func (t *tap) Close() error {
	t.look()
	return t.ReadCloser.Close()
}

// look removes the complete events from the received bytes and passes them on.
func (t *tap) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	var whole []arrival
	taken := 0
	for {
		event, size := t.framing(t.received[taken:])
		if size == 0 {
			break
		}
		taken += size
		for t.pieces[0].end < taken {
			t.pieces = t.pieces[1:]
		}
		if len(event) > 0 {
			whole = append(whole, arrival{event: event, size: size, at: t.pieces[0].at})
		}
	}
	if len(whole) > 0 {
		t.passed(whole)
	}
	rest := copy(t.received, t.received[taken:])
	t.received = t.received[:rest]
	kept := t.pieces[:0]
	for _, p := range t.pieces {
		if p.end > taken {
			kept = append(kept, piece{end: p.end - taken, at: p.at})
		}
	}
	t.pieces = kept
}
