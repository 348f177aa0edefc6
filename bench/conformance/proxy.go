package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy/listener"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// call is one request of the process under test.
type call struct {
	*request.RequestInfo
	at     time.Time
	code   int    // the code of the answer; 0 while there is none
	query  string // the query of the URL
	socket bool   // whether the call asks for a web socket
}

// isWrite reports whether a call changes something, or tries to. A review of the process's own
// permissions is not a write.
func (c *call) isWrite() bool {
	switch c.Verb {
	case "get", "list", "watch":
		return false
	}
	return c.IsResourceRequest && c.APIGroup != "authorization.k8s.io" && c.APIGroup != "authentication.k8s.io"
}

// isEvent reports whether a call is about Kubernetes Events, which are not compared.
func (c *call) isEvent() bool { return c.Resource == "events" }

// what returns the resource of a call, with its subresource.
func (c *call) what() string {
	return strings.TrimSuffix(c.Resource+"/"+c.Subresource, "/")
}

func (c *call) String() string {
	return fmt.Sprintf("%s %s %s/%s (answer %d)", c.Verb, c.what(), c.Namespace, c.Name, c.code)
}

// rule decides which calls fail, and with which answer. nil lets a call pass.
type rule func(*call) *metav1.Status

// proxy stands between the process under test and the API server. It forwards requests as the
// user of the suite, whatever credentials the process sends. Its methods may be called from any
// goroutine.
type proxy struct {
	listener   *listener.Listener
	kubeconfig string // the path of the process's kubeconfig file
	forward    *httputil.ReverseProxy
	alter      func(*http.Request, *request.RequestInfo) error // for seeded bugs; may be nil

	mu      sync.Mutex
	calls   []*call
	changed chan struct{} // closed and replaced with each call and each answer
	rules   map[int]rule
	next    int
	watches map[*call]context.CancelFunc
}

// newProxy starts a proxy, and writes a kubeconfig file with the proxy's address.
func newProxy(config *rest.Config, directory string) (*proxy, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for %s: %w", config.Host, err)
	}
	p := &proxy{
		changed: make(chan struct{}), rules: map[int]rule{}, watches: map[*call]context.CancelFunc{},
		kubeconfig: filepath.Join(directory, "kubeconfig"),
	}
	p.forward = &httputil.ReverseProxy{
		Transport: client.Transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.Header.Del("Authorization") },
	}
	if p.listener, err = listener.Forward(config, p.forward, p.serve); err != nil {
		return nil, err
	}
	if err := p.listener.WriteKubeconfig(p.kubeconfig, "anybody"); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *proxy) close() error { return p.listener.Close() }

func (p *proxy) serve(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) {
	if p.alter != nil {
		if err := p.alter(r, info); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
	}
	c := &call{RequestInfo: info, at: time.Now(), query: r.URL.RawQuery, socket: r.Header.Get("Upgrade") != ""}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	failure := p.began(c, cancel)
	defer p.ended(c)
	if failure != nil {
		p.answered(c, int(failure.Code))
		refuse(w, c, failure)
		return
	}
	p.forward.ServeHTTP(&codeWriter{ResponseWriter: w, seen: func(code int) { p.answered(c, code) }}, r.WithContext(ctx))
}

// refuse answers a call with a failure. A watch from an expired version gets the code 200 and
// then an error event, as from the API server.
func refuse(w http.ResponseWriter, c *call, failure *metav1.Status) {
	w.Header().Set("Content-Type", "application/json")
	var answer any = failure
	if c.Verb == "watch" && failure.Reason == metav1.StatusReasonExpired {
		answer = map[string]any{"type": watch.Error, "object": failure}
	} else {
		w.WriteHeader(int(failure.Code))
	}
	_ = json.NewEncoder(w).Encode(answer) // The process may have exited.
}

// codeWriter reports the code of an answer before the process receives it.
type codeWriter struct {
	http.ResponseWriter
	seen func(int)
}

func (w *codeWriter) WriteHeader(code int) {
	w.seen(code)
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap returns the original writer, so that the forwarder can flush, and take over the
// connection of a web socket.
func (w *codeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// began records a call, and returns the failure that a rule wants for it, or nil.
func (p *proxy) began(c *call, cancel context.CancelFunc) (failure *metav1.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rule := range p.rules {
		if failure = rule(c); failure != nil {
			break
		}
	}
	p.calls = append(p.calls, c)
	if c.Verb == "watch" {
		p.watches[c] = cancel
	}
	p.notify()
	return failure
}

func (p *proxy) answered(c *call, code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.code = code
	p.notify()
}

func (p *proxy) ended(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watches, c)
}

// notify wakes the waiting goroutines. The caller holds the lock.
func (p *proxy) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// fail applies a rule to all calls until the returned function is called.
func (p *proxy) fail(r rule) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.next
	p.next++
	p.rules[id] = r
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.rules, id)
	}
}

// cut ends all watches.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.watches {
		cancel()
	}
}

// mark returns the current position in the sequence of calls.
func (p *proxy) mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls)
}

// since returns copies of the matching calls from a mark on.
func (p *proxy) since(mark int, is func(*call) bool) []call {
	found, _ := p.look(mark, is)
	return found
}

// look returns the same calls as since, and a channel that is closed when there may be more.
func (p *proxy) look(mark int, is func(*call) bool) ([]call, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []call
	for _, c := range p.calls[mark:] {
		if is(c) {
			found = append(found, *c)
		}
	}
	return found, p.changed
}

// await waits until the matching calls from a mark on are enough.
func (p *proxy) await(ctx context.Context, mark int, is func(*call) bool, enough func([]call) bool) ([]call, error) {
	for {
		found, changed := p.look(mark, is)
		if enough(found) {
			return found, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return found, context.Cause(ctx)
		}
	}
}

// some reports whether there is at least one call.
func some(found []call) bool { return len(found) > 0 }

// quiet waits until there has been no matching call for a while.
func (p *proxy) quiet(ctx context.Context, while time.Duration, is func(*call) bool) error {
	for {
		within, cancel := context.WithTimeout(ctx, while)
		_, err := p.await(within, p.mark(), is, some)
		cancel()
		if ctx.Err() != nil {
			return fmt.Errorf("wait for %v without a write: %w", while, context.Cause(ctx))
		}
		if err != nil {
			return nil
		}
	}
}
