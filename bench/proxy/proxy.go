package proxy

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// Proxy is a proxy that runs. Its methods may be called from any goroutine.
type Proxy struct {
	address   string
	authority []byte
	server    *http.Server
	transport http.RoundTripper
	forward   *httputil.ReverseProxy
	group     *lifecycle.Group
	infos     request.RequestInfoFactory
	recorder  *recorder
	serving   sync.RWMutex // held for reading by each call that is being served
}

// New starts a proxy on a free loopback port, in front of the API server of a client
// configuration. Of that it takes the address and the authority alone. It runs until Close.
func New(config *rest.Config) (*Proxy, error) {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	onward := rest.AnonymousClientConfig(config)
	onward.DisableCompression = true // Answers pass as the contender wants them.
	transport, err := rest.TransportFor(onward)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	certificates, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"})
	if err != nil {
		return nil, fmt.Errorf("making the proxy's certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificates, key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate that was just made: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the contender: %w", err)
	}
	p := &Proxy{
		address: "https://" + listener.Addr().String(), transport: transport, recorder: newRecorder(),
		infos: request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
		group: lifecycle.New(context.Background()),
	}
	_, p.authority = pem.Decode(certificates) // It follows the certificate.
	quiet := log.New(io.Discard, "", 0)       // The contender ends watches when it wants to.
	p.forward = &httputil.ReverseProxy{
		Transport: transport, ErrorLog: quiet, BufferPool: &buffers{},
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(response *http.Response) error {
			exchangeOf(response.Request.Context()).answered(response)
			return nil
		},
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve), ErrorLog: quiet, ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return p.group.Context() },
		TLSConfig:   &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	p.group.Go("proxy", func(context.Context) error {
		if err := p.server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return p, nil
}

// Close ends all calls, and returns when they are over. The record stays.
func (p *Proxy) Close() error {
	p.group.Stop()
	err := errors.Join(p.server.Close(), p.group.Wait())
	p.serving.Lock()   // Until the last one is over.
	p.serving.Unlock() //nolint:staticcheck // It was taken to wait.
	utilnet.CloseIdleConnectionsFor(p.transport)
	if err != nil {
		return fmt.Errorf("ending the proxy: %w", err)
	}
	return nil
}

// WriteKubeconfig writes the file that leads a contender to the proxy, as somebody whose
// token is given.
func (p *Proxy) WriteKubeconfig(path, token string) error {
	return WriteKubeconfig(path, p.address, p.authority, token)
}

// WriteKubeconfig writes a kubeconfig file for the server of a URL, whose authority is
// PEM encoded.
func WriteKubeconfig(path, server string, authority []byte, token string) error {
	const name = "bench"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing the contender's kubeconfig: %w", err)
	}
	return nil
}

// Record is what has passed so far: of calls and watches that are not over, the events.
// The caller must not change it.
func (p *Proxy) Record() Record { return p.recorder.snapshot() }

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
	p.serving.RLock()
	defer p.serving.RUnlock()
	info, err := p.infos.NewRequestInfo(r)
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
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	r = e.begin(r.WithContext(ctx))
	defer e.end() // The forwarder panics when a contender leaves in the middle.
	p.forward.ServeHTTP(&upgradable{w, cancel}, r)
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
