package page

import (
	"net/http"
	"time"
)

// follow answers with a stream of Server-sent events until the client or the manager ends, or the client does not read.
func (p *Page) follow(w http.ResponseWriter, request *http.Request) {
	of, leave, joined := p.join()
	if !joined {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "16 browsers show the page already; close one of them", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Connection", "close") // Its deadline must not outlast the stream.
	control := http.NewResponseController(w)
	send := func(frame []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(patience)) // A client that does not read may not keep the connection.
		_, err := w.Write(frame)
		return err == nil && control.Flush() == nil
	}
	beats := time.NewTicker(heartbeat)
	defer beats.Stop()
	for sent := send([]byte(": connected\n\n")); sent; {
		select {
		case frame := <-of.state:
			sent = send(frame)
		case frame := <-of.frames:
			sent = send(frame)
		case <-beats.C:
			sent = send([]byte(": alive\n\n"))
		case <-of.gone:
			return
		case <-request.Context().Done():
			return
		case <-of.ended:
			return
		}
	}
}
