package proxy

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy/gate"
	"k8s.io/client-go/rest"
)

// Proxy is a proxy that runs. Its methods may be called from any goroutine.
type Proxy struct {
	gate     *gate.Gate
	onward   onward
	forward  *httputil.ReverseProxy
	recorder *recorder
}

// New starts a proxy on a free loopback port, in front of the API server of a client
// configuration. Of that it takes the address and the authority alone. It runs until Close.
func New(config *rest.Config) (*Proxy, error) {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	p := &Proxy{recorder: newRecorder()}
	if p.onward, err = onwardTo(config); err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	p.forward = &httputil.ReverseProxy{
		Transport: p.onward, ErrorLog: gate.Quiet, BufferPool: &buffers{},
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(response *http.Response) error {
			exchangeOf(response.Request.Context()).answered(response)
			return nil
		},
	}
	if p.gate, err = gate.Open(p.serve); err != nil {
		return nil, err
	}
	return p, nil
}

// Close ends all calls, and returns when they are over. The record stays.
func (p *Proxy) Close() error {
	err := p.gate.Close()
	p.onward.CloseIdleConnections()
	return err
}

// WriteKubeconfig writes the file that leads a contender to the proxy, as somebody whose
// token is given.
func (p *Proxy) WriteKubeconfig(path, token string) error {
	return p.gate.WriteKubeconfig(path, token)
}

// Record is what has passed so far: of calls that are not over nothing, of watches that are
// not over that they are open, and their events. The caller must not change it.
func (p *Proxy) Record() Record { return p.recorder.snapshot() }

// Counts are the numbers of what has passed so far. They cost nothing to ask for, unlike the
// record.
func (p *Proxy) Counts() Counts { return p.recorder.counted() }

// Saw tells the proxy of a version that somebody else has seen.
func (p *Proxy) Saw(version uint64) { p.recorder.saw(version) }

// IsWatched says whether the contender has a watch of a resource open, such as "sheroes".
func (p *Proxy) IsWatched(resource string) bool { return p.recorder.watches(resource) }

// IdleSince is when the contender last began or ended a call or got an event of a watch.
// The end of watches, bookmarks, and calls about Events and leases do not count. It is now
// while a call waits for its answer.
func (p *Proxy) IdleSince() time.Time { return p.recorder.idleSince() }

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	info, err := gate.InfoOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e := &exchange{proxy: p, call: Call{
		At: at, Verb: info.Verb, Group: info.APIGroup, Resource: info.Resource, Subresource: info.Subresource,
		Namespace: info.Namespace, Name: info.Name,
	}}
	if !info.IsResourceRequest {
		e.call.Verb, e.call.Name = "", info.Path
	}
	p.recorder.saw(versionIn(r.URL.Query()))
	r = e.begin(r)
	defer e.end() // The forwarder panics when a contender leaves in the middle.
	p.forward.ServeHTTP(w, r)
}

// versionIn is the version that a watch or a list begins at: the contender has seen it.
func versionIn(query url.Values) uint64 { return parseVersion(query.Get("resourceVersion")) }

// buffers are those that answers pass through.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put(&buffer) }
