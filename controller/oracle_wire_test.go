package controller_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// oraclePath is a path at which the manager lists and watches a kind: one namespace, or all of them.
type oraclePath struct {
	asked      time.Time // when the list in progress was requested
	first      time.Time // when the first complete list was requested; zero if there was none
	listed     time.Time // when the last complete list was requested
	everListed bool      // a list was complete in this or an earlier life of the kind
	behind     bool      // the server was restored, and no list of that is in the cache yet
	relisted   bool      // a list was complete since the restore
}

func (p *oraclePath) complete(asked time.Time) {
	if p.first.IsZero() {
		p.first = asked
	}
	p.listed, p.everListed, p.relisted = asked, true, true
}

// oracleWire is the network between the manager and its server. It records the lists and events that
// pass.
type oracleWire struct{ *oracle }

// RoundTrip forwards a request to the server.
func (o *oracleWire) RoundTrip(request *http.Request) (*http.Response, error) {
	kind, name := o.parse(request.URL.Path)
	switch query := request.URL.Query(); {
	case kind == nil:
		return o.forward(request)
	case request.Method != http.MethodGet:
		return o.write(request, kind, name)
	case query.Get("watch") != "":
		return o.watch(request, kind, name.Namespace, query.Get("sendInitialEvents") != "")
	case query.Get("limit") == "1":
		return o.probe(request, kind)
	default:
		return o.list(request, kind, name.Namespace, query.Get("continue") != "")
	}
}

// parse returns the kind and the name in a path. The kind is nil if it is none of the oracle.
func (o *oracleWire) parse(path string) (*oracleKind, types.NamespacedName) {
	parts := strings.Split(strings.TrimPrefix(path, "/api/v1/"), "/")
	var name types.NamespacedName
	if parts[0] == "namespaces" && len(parts) > 2 {
		name.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 1 {
		name.Name = parts[1]
	}
	for _, kind := range o.kinds {
		if kind.resource == parts[0] {
			return kind, name
		}
	}
	return nil, name
}

// write forwards a write, and adds the states that it changed to the history.
func (o *oracleWire) write(request *http.Request, kind *oracleKind, name types.NamespacedName) (*http.Response, error) {
	if o.slowWrites.CompareAndSwap(true, false) {
		select {
		case <-time.After(5 * time.Second):
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
	o.mu.Lock()
	refused := o.quarantined()
	o.mu.Unlock()
	if refused {
		return refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError, "the server is being restored"), nil
	}
	answer, err := o.forward(request)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, thing := range o.things {
		if thing.kind == kind && (name.Name == "" || thing.name == name) {
			o.look(thing)
		}
	}
	return answer, err
}

// probe forwards a request for the current version.
func (o *oracleWire) probe(request *http.Request, kind *oracleKind) (*http.Response, error) {
	answer, err := o.forward(request)
	if err == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.note(kind, answer, true)
	}
	return answer, err
}

// list forwards a list, or a page of one, and records when a list is complete.
func (o *oracleWire) list(request *http.Request, kind *oracleKind, namespace string, next bool) (*http.Response, error) {
	asked := time.Now()
	answer, err := o.forward(request)
	if err != nil {
		return answer, err
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body = io.NopCloser(bytes.NewReader(body))
	o.mu.Lock()
	defer o.mu.Unlock()
	path := kind.path(namespace)
	o.note(kind, answer, true)
	if !next {
		path.asked = asked
	}
	if bytes.HasPrefix(body, []byte(`{"apiVersion":"`)) && bytes.Contains(body, []byte(`"items":`)) && !bytes.Contains(body, []byte(`"continue":"`)) {
		path.complete(path.asked)
	}
	return answer, err
}

// note records that the server refuses to list a kind. final is false if the source makes another
// request in place of the refused one.
func (o *oracleWire) note(kind *oracleKind, answer *http.Response, final bool) {
	switch answer.StatusCode {
	case http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		kind.refused = true
		kind.barred = kind.barred || final
	}
}

// watch forwards a watch, which may begin with a list.
func (o *oracleWire) watch(request *http.Request, kind *oracleKind, namespace string, lists bool) (*http.Response, error) {
	asked := time.Now()
	answer, err := o.forward(request)
	if err != nil {
		return answer, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if lists {
		o.note(kind, answer, false) // The source falls back to a plain list.
	}
	answer.Body = &oracleBody{
		ReadCloser: answer.Body, wire: o, kind: kind, path: kind.path(namespace), asked: asked, goAways: o.goAways.ended.Load(),
	}
	return answer, nil
}

// oracleBody is the body of a watch. One goroutine reads it.
type oracleBody struct {
	io.ReadCloser
	wire  *oracleWire
	kind  *oracleKind
	path  *oraclePath
	asked time.Time
	line  []byte // an incomplete line

	goAways int64 // the number of connections that had ended by a GOAWAY when the watch began
}

// Read reads, and records the event in each complete line.
func (b *oracleBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if err != nil && b.wire.goAways.ended.Load() > b.goAways {
		err = errGoAway
	}
	b.line = append(b.line, into[:n]...)
	for {
		line, rest, whole := bytes.Cut(b.line, []byte("\n"))
		if !whole {
			return n, err
		}
		b.note(line)
		b.line = rest
	}
}

var endOfList = []byte(metav1.InitialEventsAnnotationKey)

func (b *oracleBody) note(line []byte) {
	switch kind := between(line, `{"type":"`); kind {
	case "ADDED", "MODIFIED", "DELETED":
		name := types.NamespacedName{Namespace: between(line, `"namespace":"`), Name: between(line, `"name":"`)}
		token := between(line, `"`+oracleToken+`":"`)
		if kind == "DELETED" {
			token = ""
		}
		for _, thing := range b.wire.things {
			if thing.kind == b.kind && thing.name == name {
				b.wire.came(thing, token)
			}
		}
	case "BOOKMARK":
		if bytes.Contains(line, endOfList) {
			b.wire.mu.Lock()
			defer b.wire.mu.Unlock()
			b.path.complete(b.asked)
		}
	}
}

// between returns the text after before, up to the next quotation mark.
func between(line []byte, before string) string {
	_, after, _ := bytes.Cut(line, []byte(before))
	value, _, _ := bytes.Cut(after, []byte(`"`))
	return string(value)
}
