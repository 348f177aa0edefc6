package proxy

import (
	"bytes"
	"encoding/binary"
	"io"
	"sync"
	"time"

	"github.com/gobwas/ws"
)

// framing cuts the next event off what has come of a watch. It returns how many bytes the
// event took of that, 0 if it has not come as a whole, and the event, which may be empty.
type framing func(received []byte) (event []byte, size int)

// lines: each event is a line of JSON.
func lines(received []byte) ([]byte, int) {
	end := bytes.IndexByte(received, '\n')
	return received[:max(0, end)], end + 1
}

// lengthDelimited: each event has its length before it, in four bytes.
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

// messages: each event is a message of a WebSocket in one frame. The API server makes no
// others, but for pings and the like.
func messages(received []byte) ([]byte, int) {
	reader := bytes.NewReader(received)
	header, err := ws.ReadHeader(reader)
	if err != nil {
		return nil, 0 // More is to come.
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

// tap reads a watch on its way to the contender. It looks at what it has passed on when
// it is asked for more: by then, that has gone.
type tap struct {
	io.ReadCloser
	framing framing

	mu       sync.Mutex // A WebSocket is closed while it is read.
	received []byte     // of events that have not come as a whole
	pieces   []piece
	passed   func([]arrival)
}

// piece says that up to an end, what was received came at a time.
type piece struct {
	end int
	at  time.Time
}

// arrival is an event, and when its last byte came. It is valid during the call.
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

// look takes the whole events off what was received.
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
