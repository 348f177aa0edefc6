package faultproxy

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// quiet discards the log messages of the server and the forwarder about requests that faults end.
var quiet = log.New(io.Discard, "", 0)

var paths = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// Proxy is a running proxy. Its methods may be called from any goroutine.
type Proxy struct {
	script      *script
	streams     *streams
	connections *connections

	address     string
	authority   *authority
	certificate atomic.Pointer[tls.Certificate]
	token       atomic.Pointer[string]

	dialled dialled
	onward  *http.Transport
	forward *httputil.ReverseProxy
	server  *http.Server
	group   *lifecycle.Group
	serving sync.RWMutex   // read-locked by each request in flight
	held    sync.WaitGroup // connections of clients
	closed  sync.Once
}

// New starts a proxy on a free loopback port, in front of the API server in a client configuration.
// The proxy uses the credentials of that configuration, and runs until Close.
func New(config *rest.Config) (*Proxy, error) {
	p := &Proxy{script: newScript(), streams: newStreams(), connections: newConnections()}
	p.Rotate()
	if err := p.connect(config); err != nil {
		return nil, fmt.Errorf("faultproxy: connect to %s: %w", config.Host, err)
	}
	if err := p.listen(); err != nil {
		return nil, fmt.Errorf("faultproxy: listen: %w", err)
	}
	return p, nil
}

// connect prepares the connection to the API server.
func (p *Proxy) connect(config *rest.Config) error {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		return err
	}
	// A separate transport, because client-go's transports are shared and stay open.
	p.onward = &http.Transport{TLSClientConfig: security, ForceAttemptHTTP2: true, DisableCompression: true, DialContext: p.dialled.through(config.Dial)}
	authenticated, err := rest.HTTPWrappersForConfig(config, p.onward)
	if err != nil {
		return err
	}
	p.forward = &httputil.ReverseProxy{
		Transport: authenticated, ErrorLog: quiet, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization") // The proxy's own token is not valid there.
		},
		ModifyResponse: answered,
		// A failure behind the proxy must look like a failure of the network, not like an answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return nil
}

// listen starts the server.
func (p *Proxy) listen() error {
	var err error
	if p.authority, err = newAuthority(); err != nil {
		return err
	}
	if err := p.Renew(lifetime); err != nil {
		return err
	}
	loopback, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.address = "https://" + loopback.Addr().String()
	p.group = lifecycle.New(context.Background())
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve), ErrorLog: quiet, ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return p.group.Context() },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c)
		},
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				p.held.Add(1)
			case http.StateClosed, http.StateHijacked:
				p.held.Done()
			}
		},
		TLSConfig: &tls.Config{
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.certificate.Load(), nil },
			MinVersion:     tls.VersionTLS12,
			ClientAuth:     tls.RequestClientCert, // The API server refuses a wrong one by its answers, too.
		},
	}
	p.group.Go("fault proxy", func(context.Context) error {
		if err := p.server.ServeTLS(listener{loopback, p.connections}, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return nil
}

// Config returns a new client configuration for the proxy. Its clients have the rights of the
// configuration given to New, and no rate limit.
func (p *Proxy) Config() *rest.Config {
	return &rest.Config{Host: p.address, BearerToken: *p.token.Load(), QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: p.authority.pem}}
}

// Rotate replaces the token of clients. Requests with the old one are refused with code 401; Config
// returns the new one. Open streams stay.
func (p *Proxy) Rotate() {
	token := rand.Text()
	p.token.Store(&token)
}

// Close ends all requests and connections, and returns when they have ended. It may be called more
// than once.
func (p *Proxy) Close() (err error) {
	p.closed.Do(func() {
		p.Thaw() // The end of a TLS connection is a message, too, and must not freeze.
		p.group.Stop()
		err = errors.Join(p.server.Close(), p.group.Wait())
		p.held.Wait()
		p.serving.Lock()   // Waits until the last request has ended.
		p.serving.Unlock() //nolint:staticcheck // It is taken only to wait.
		p.onward.CloseIdleConnections()
		p.dialled.close()
	})
	if err != nil {
		return fmt.Errorf("faultproxy: close: %w", err)
	}
	return nil
}

type (
	connectionKey struct{}
	streamKey     struct{}
)

// serve forwards one request, unless a fault applies to it.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.serving.RLock()
	defer p.serving.RUnlock()
	hasToken := subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+*p.token.Load())) == 1
	if !hasToken && !p.authority.knows(r.TLS) {
		refuse(w, Fault{Code: http.StatusUnauthorized}, Match{})
		return
	}
	info, err := paths.NewRequestInfo(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s := &stream{request: Match{Verb: info.Verb, Resource: info.Resource, Namespace: info.Namespace, Name: info.Name}, ctx: ctx, cancel: cancel}
	s.watch = watchOf(r, info.Verb)
	p.streams.listed(r, info.Verb)
	if p.streams.refuses(s.watch, r.URL.Query()) {
		refuse(w, Fault{Code: http.StatusGone}, s.request)
		return
	}
	s.fault, _ = p.script.decide(s.request)
	p.streams.begin(s)
	defer p.streams.end(s)
	switch s.fault.Action {
	case Hang:
		_ = s.hang()
		panic(http.ErrAbortHandler) // Also if the test cut the stream.
	case Refuse:
		refuse(w, s.fault, s.request)
		return
	case Answer:
		w.Header().Set("Content-Type", s.fault.ContentType)
		_, _ = io.WriteString(w, s.fault.Body) // A client that is gone needs no answer.
		return
	case Disconnect:
		disconnect(r)
		panic(http.ErrAbortHandler)
	case Slow:
		timer := time.NewTimer(s.fault.For)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	case GoAway:
		w.Header().Set("Connection", "close") // The HTTP/2 server sends a GOAWAY for it.
	}
	p.forward.ServeHTTP(w, r.WithContext(context.WithValue(ctx, streamKey{}, s)))
}

// answered applies the fault of a stream to its answer.
func answered(response *http.Response) error {
	s := response.Request.Context().Value(streamKey{}).(*stream)
	if s.fault.Action == LoseAnswer {
		if s.request.Verb == "watch" { // A watch has no end to wait for.
			return errCut
		}
		_, err := io.Copy(io.Discard, response.Body)
		return errors.Join(errCut, err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		response.Body = &body{ReadCloser: response.Body, stream: s}
	}
	return nil
}

// disconnect resets the connection on which a request came.
func disconnect(r *http.Request) {
	came, _ := r.Context().Value(connectionKey{}).(net.Conn)
	if secured, is := came.(*tls.Conn); is {
		came = secured.NetConn()
	}
	if one, is := came.(*connection); is {
		one.reset()
	}
}

// refuse answers with a Status, as an API server does.
func refuse(w http.ResponseWriter, fault Fault, request Match) {
	const message = "refused by the test"
	seconds := int(fault.RetryAfter / time.Second)
	status := apierrors.NewGenericServerResponse(fault.Code, request.Verb, schema.GroupResource{Resource: request.Resource}, request.Name, message, seconds, true).Status()
	if fault.Code == http.StatusGone {
		status = apierrors.NewResourceExpired(message).Status()
	}
	status.APIVersion, status.Kind = "v1", "Status"
	w.Header().Set("Content-Type", "application/json")
	if seconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	w.WriteHeader(fault.Code)
	_ = json.NewEncoder(w).Encode(status) // A client that is gone needs no answer.
}
