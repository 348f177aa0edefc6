package controller

import (
	"context"
	"net/http"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/recording"
)

// mostRecipients bounds the clients that get a recording at once. Each costs a reader of its files.
const mostRecipients = 4

// serveRecording answers with the recording, and goes on until the client or the manager ends. It has whole objects. So a server
// without a guard gives it only to its own machine, where a forwarded port ends too.
func (m *Manager) serveRecording(w http.ResponseWriter, request *http.Request) {
	if m.tape == nil {
		http.Error(w, "this operator does not record; give it --record, or set Options.Recording", http.StatusNotFound)
		return
	}
	if m.guard == nil && !isLocal(request) {
		http.Error(w, "the recording has whole objects, and this server does not ask who reads them; protect it, or forward a port to it", http.StatusForbidden)
		return
	}
	select {
	case m.tape.recipients <- struct{}{}:
		defer func() { <-m.tape.recipients }()
	default:
		http.Error(w, "the recording has too many readers; try again when one has ended", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithCancel(request.Context())
	defer cancel()
	defer context.AfterFunc(m.context(), cancel)()
	w.Header().Set("Content-Type", "application/octet-stream")
	control := http.NewResponseController(w)
	if control.Flush() != nil { // So that the client has an answer before there is a record.
		return
	}
	_ = recording.Send(ctx, m.options.Recording.Dir, patient{w, control}, control.Flush) // The client gets the error, unless it has gone.
}

// patient bounds how long each write waits for a client that does not read.
type patient struct {
	to      http.ResponseWriter
	control *http.ResponseController
}

func (p patient) Write(part []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(followPatience)); err != nil {
		return 0, err
	}
	return p.to.Write(part)
}

// isLocal reports whether a request comes from this machine, and from no page of a browser: see namesMachine.
func isLocal(request *http.Request) bool {
	own, err := isLoopback(request.RemoteAddr)
	return err == nil && own && namesMachine(request)
}
