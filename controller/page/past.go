package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/recording"
	"k8s.io/apimachinery/pkg/runtime"
)

// PastRoot is the path of what a recording has, on a server.
const PastRoot = "/debug/past/"

// The times of an answer about the past.
const (
	pastPatience = time.Minute      // for reading the files
	takePatience = 30 * time.Second // with a client that does not read its answer
)

// Past answers what a recording on disk has about a time. It reads the files for each question, one question at a time, so a long recording
// needs no memory in an operator. Answers have names, versions, times, paths of fields and messages of errors, and no values.
// Create it with [NewPast].
type Past struct {
	path   string
	read   decoder
	goesOn bool
	turn   chan struct{} // has an item while files are read
	last   *world        // the answer of the last question about a state; the turn protects it
}

// NewPast creates the handler of a recording: a folder or a file. The scheme has the kinds whose objects are in protobuf.
// goesOn says that this process still records.
func NewPast(path string, scheme *runtime.Scheme, goesOn bool) *Past {
	return &Past{path: path, read: newDecoder(scheme), goesOn: goesOn, turn: make(chan struct{}, 1)}
}

// badQuestion is an error of the one who asks.
type badQuestion struct {
	code int
	text string
}

func (b *badQuestion) Error() string { return b.text }

// question is a request about the past.
type question struct {
	url.Values
	at time.Time // the time in question
}

// ServeHTTP answers a question.
func (p *Past) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	if request.Method != http.MethodGet {
		header.Set("Allow", http.MethodGet)
		http.Error(w, "a recording is read-only; use GET", http.StatusMethodNotAllowed)
		return
	}
	ask := map[string]func(context.Context, question) (any, error){
		"span": p.span, "items": p.items, "state": p.state, "tree": p.tree, "why": p.why,
	}[strings.TrimPrefix(request.URL.Path, PastRoot)]
	if ask == nil {
		http.NotFound(w, request)
		return
	}
	answer, err := p.answer(request, ask)
	var bad *badQuestion
	switch {
	case request.Context().Err() != nil:
		return // The client has gone.
	case errors.As(err, &bad):
		http.Error(w, bad.text, bad.code)
		return
	case errors.Is(err, recording.ErrNoFiles):
		http.Error(w, "nothing is recorded so far; ask again in some seconds", http.StatusNotFound)
		return
	case errors.Is(err, context.DeadlineExceeded):
		http.Error(w, "the recording takes too long to read; ask for a shorter time, or copy it and show the copy with bellerophon page", http.StatusServiceUnavailable)
		return
	case err != nil:
		http.Error(w, "the recording cannot be read: "+err.Error(), http.StatusInternalServerError)
		return
	}
	encoded, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, "the answer cannot be encoded", http.StatusInternalServerError)
		return
	}
	header.Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(takePatience)) // A server without deadlines has a client that is patient.
	_, _ = w.Write(encoded)                                                          // The client may have gone.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
}

// answer waits for its turn and calls ask. Questions of many browsers must not read files at once beside an operator's work.
func (p *Past) answer(request *http.Request, ask func(context.Context, question) (any, error)) (any, error) {
	asked := question{Values: request.URL.Query()}
	at, err := asked.time("at")
	if err != nil {
		return nil, err
	}
	asked.at = at
	ctx, cancel := context.WithTimeout(request.Context(), pastPatience)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for try := 1; ; try++ {
		answer, err := ask(ctx, asked)
		if !errors.Is(err, os.ErrNotExist) || try == 3 { // The ring removes its oldest file now and then.
			return answer, err
		}
	}
}

// latest is the begin of the year 9999 in milliseconds. JSON has no time after that year, in any zone.
const latest = 253_370_764_800_000

// time returns a time of the question, in milliseconds since 1970, or a zero time if it has none.
func (q question) time(name string) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 1 || ms > latest {
		return time.Time{}, &badQuestion{http.StatusBadRequest, fmt.Sprintf("%s is %.40q; give milliseconds since 1970", name, text)}
	}
	return time.UnixMilli(ms), nil
}

// extent is the answer about the whole recording.
type extent struct {
	GoesOn      bool             `json:"goesOn"` // this process still records
	Version     string           `json:"version"`
	Controllers []recordedMember `json:"controllers"`
	From        int64            `json:"from"`
	To          int64            `json:"to"`
	Cut         bool             `json:"cut"` // the oldest records have left the ring
}

// recordedMember is a controller of a recording.
type recordedMember struct {
	Name string `json:"name"`
	Kind string `json:"kind,omitempty"` // that it reconciles
}

func (p *Past) span(ctx context.Context, _ question) (any, error) {
	first, header, err := recording.Began(p.path)
	if err != nil {
		return nil, err
	}
	last := time.Now()
	if !p.goesOn {
		if last, err = recording.Ended(ctx, p.path); err != nil {
			return nil, err
		}
	}
	made := extent{GoesOn: p.goesOn, Version: header.Version, Controllers: membersOf(header), Cut: header.IsBase}
	if !first.IsZero() {
		made.From, made.To = first.UnixMilli(), max(first.UnixMilli(), last.UnixMilli())
	}
	return made, nil
}

// membersOf returns the controllers of a recording, with the kinds that are known.
func membersOf(header recording.Header) []recordedMember {
	made := make([]recordedMember, 0, len(header.Controllers))
	for _, name := range slices.Sorted(slices.Values(header.Controllers)) {
		member := recordedMember{Name: name}
		if kind := header.Reconciled[name]; kind.Kind != "" {
			member.Kind = kind.String()
		}
		made = append(made, member)
	}
	return made
}
