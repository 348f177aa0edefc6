package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy/listener"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// Proxy is a running proxy. Its methods may be called from any goroutine.
type Proxy struct {
	listener *listener.Listener
	forward  *httputil.ReverseProxy
	recorder *recorder
}

// New starts a proxy for the config's API server on a free loopback port. It uses only the address
// and the certificate authority of the config. If roundTrip is above 0, there is a network with that
// round trip between the contender and the proxy. The proxy runs until Close.
func New(config *rest.Config, roundTrip time.Duration) (*Proxy, error) {
	to, err := onwardTo(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	p := &Proxy{recorder: newRecorder()}
	p.forward = &httputil.ReverseProxy{
		Transport: to, BufferPool: &buffers{},
		ModifyResponse: func(response *http.Response) error {
			exchangeOf(response.Request.Context()).answered(response)
			return nil
		},
		// An API server that is down must look like that to the contender, and not like an answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	if p.listener, err = listener.Forward(config, p.forward, p.serve); err != nil {
		return nil, err
	}
	if roundTrip > 0 {
		if err := p.listener.MoveAway(roundTrip); err != nil {
			return nil, errors.Join(err, p.listener.Close())
		}
	}
	return p, nil
}

// Close ends all calls and returns when they are over. The record stays readable.
func (p *Proxy) Close() error { return p.listener.Close() }

// WriteKubeconfig writes a kubeconfig file with the address of the proxy and the given token.
func (p *Proxy) WriteKubeconfig(path, token string) error {
	return p.listener.WriteKubeconfig(path, token)
}

// Record returns the record so far. It holds the calls that are over, the watches that are open,
// and the events of all watches; other calls in flight are absent. The caller must not change it.
func (p *Proxy) Record() Record { return p.recorder.snapshot() }

// Counts returns how many writes and events have passed so far. Unlike Record, it is cheap to call.
func (p *Proxy) Counts() Counts { return p.recorder.counted() }

// Connections returns how many connections of the contender are open.
func (p *Proxy) Connections() int { return p.listener.Connections() }

// Saw reports to the proxy a resource version that another client has seen.
func (p *Proxy) Saw(version uint64) { p.recorder.saw(version) }

// IsWatched reports whether the contender has an open watch of a resource, such as "sheroes".
func (p *Proxy) IsWatched(resource string) bool { return p.recorder.watches(resource) }

// IdleSince returns when the contender last began or ended a call or received a watch event. The
// end of a watch, bookmarks, and calls about Events, leases and reviews do not count. While a call
// other than a watch is in flight, it returns the current time.
func (p *Proxy) IdleSince() time.Time { return p.recorder.idleSince() }

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) {
	at := time.Now()
	e := &exchange{proxy: p, call: Call{
		At: at, Verb: info.Verb, Group: info.APIGroup, Resource: info.Resource, Subresource: info.Subresource,
		Namespace: info.Namespace, Name: info.Name,
	}}
	if !info.IsResourceRequest {
		e.call.Verb, e.call.Name = "", info.Path
	}
	query := r.URL.Query()
	e.call.Lists = lists(info.Verb, query)
	p.recorder.saw(versionIn(query))
	r = e.begin(r)
	defer e.end() // Deferred, as the forwarder panics when a contender closes the connection early.
	p.forward.ServeHTTP(w, r)
}

// lists reports whether a request begins a list. A list of one object asks for the current version, and a
// page continues a list.
func lists(verb string, query url.Values) bool {
	if verb == "watch" {
		return query.Get("sendInitialEvents") == "true"
	}
	return verb == "list" && query.Get("limit") != "1" && query.Get("continue") == ""
}

// versionIn returns the resource version at which a watch or a list starts. The contender has seen
// that version.
func versionIn(query url.Values) uint64 { return parseVersion(query.Get("resourceVersion")) }

// buffers pools the buffers through which answers are copied.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put(&buffer) }
