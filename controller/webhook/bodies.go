package webhook

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"sync/atomic"
)

// The largest bodies of requests. An API server stores objects of up to 1.5 MB, and sends the old and the
// new one. For a list it sends all objects of a page at once, and clients choose the size of pages.
const (
	maxAdmission  = 8 << 20
	maxConversion = 256 << 20
)

// bodyShare is the part of the program's memory limit that all bodies in flight may take together. A body of JSON takes
// several times its size while it is decoded. Any pod may send some.
const bodyShare = 8

var errBusy = errors.New("the bodies of other requests take the memory that bodies may take; try again")

// bodies counts the bytes of the bodies in flight.
type bodies struct{ bytes atomic.Int64 }

// most returns how many bytes all bodies may have together.
func (*bodies) most() int64 {
	return min(max(debug.SetMemoryLimit(-1)/bodyShare, 2*maxAdmission), maxConversion)
}

// read checks a request, and returns its body. The caller releases the body after its last use, also after an error.
func (b *bodies) read(w http.ResponseWriter, request *http.Request, most int64) (body []byte, release func(), wrong *refused) {
	counted := &countedBody{of: b, most: b.most()}
	release = func() { b.bytes.Add(-counted.taken) }
	if request.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, release, &refused{http.StatusMethodNotAllowed, "only POST is allowed"}
	}
	if media, _, err := mime.ParseMediaType(request.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, release, &refused{http.StatusUnsupportedMediaType, "the content type must be application/json"}
	}
	counted.Reader = http.MaxBytesReader(w, request.Body, most)
	body, err := io.ReadAll(counted)
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, errBusy):
		return nil, release, &refused{http.StatusServiceUnavailable, errBusy.Error()}
	case errors.As(err, &large):
		return nil, release, &refused{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", most)}
	case err != nil:
		return nil, release, &refused{http.StatusBadRequest, "the body cannot be read"}
	}
	return body, release, nil
}

// countedBody is a body whose bytes count from when they arrive. It fails when all bodies have too many.
type countedBody struct {
	io.Reader
	of          *bodies
	most, taken int64
}

// Read reads a part of the body.
func (c *countedBody) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	c.taken += int64(n)
	if c.of.bytes.Add(int64(n)) > c.most {
		return n, errBusy
	}
	return n, err
}
