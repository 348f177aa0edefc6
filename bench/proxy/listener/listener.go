// Package listener is the core of a reverse proxy in front of the API server: a server on loopback, the
// kubeconfig file with which a contender connects to it, and the forwarder to the API server.
//
// What it guarantees:
//
//   - It speaks verified TLS with its own certificate, and HTTP/2 if the contender does.
//   - The context of a request ends when the contender disconnects or the listener is closed, also
//     if the request is a WebSocket. The contender of a WebSocket counts as disconnected once it
//     has closed its half of the connection.
//   - Close returns when no request is being served any more.
package listener

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
	"strings"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy/distance"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// quiet discards what servers and forwarders log about calls that end early. Contenders may end a
// watch at any time, and a check may cut one.
var quiet = log.New(io.Discard, "", 0)

// infos parses the paths of the API server.
var infos = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// InfoOf returns the verb, the resource and the object of a request to the API server.
func InfoOf(r *http.Request) (*request.RequestInfo, error) { return infos.NewRequestInfo(r) }

const scheme = "https://"

// Listener is a running server. Its methods may be called from any goroutine.
type Listener struct {
	address   string
	authority []byte // PEM
	accepting *accepting
	server    *http.Server
	group     *lifecycle.Group
	serving   sync.RWMutex    // read-locked by each request that is being served
	idle      func()          // closes idle connections to the API server; nil without a forwarder
	away      *distance.Relay // nil if the listener is near
}

// Open starts a server on a free loopback port. The server calls serve for each request, each on
// its own goroutine, until Close.
func Open(serve http.HandlerFunc) (*Listener, error) {
	certificates, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"})
	if err != nil {
		return nil, fmt.Errorf("making the proxy's certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificates, key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate that was just made: %w", err)
	}
	opened, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the contender: %w", err)
	}
	l := &Listener{address: scheme + opened.Addr().String(), accepting: &accepting{Listener: opened}, group: lifecycle.New(context.Background())}
	_, l.authority = pem.Decode(certificates) // The authority follows the certificate.
	l.server = &http.Server{
		Handler: l.watched(serve), ErrorLog: quiet, ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return l.group.Context() },
		TLSConfig:   &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	l.group.Go("proxy", func(context.Context) error {
		if err := l.server.ServeTLS(l.accepting, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return l, nil
}

// MoveAway puts a network with a round-trip time before the listener. Kubeconfig files that are written
// afterwards lead through it. It may be called once.
func (l *Listener) MoveAway(roundTrip time.Duration) (err error) {
	if l.away, err = distance.Open(strings.TrimPrefix(l.address, scheme), roundTrip); err != nil {
		return err
	}
	l.address = scheme + l.away.Address()
	return nil
}

// Connections returns how many connections of contenders are open.
func (l *Listener) Connections() int { return int(l.accepting.open.Load()) }

// watched tracks the requests that are being served, and cancels a request when its contender
// disconnects.
func (l *Listener) watched(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		l.serving.RLock()
		defer l.serving.RUnlock()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		serve(&upgradable{w, cancel}, r.WithContext(ctx))
	}
}

// Close ends all requests and returns when they are over.
func (l *Listener) Close() error {
	l.group.Stop()
	var err error
	if l.away != nil {
		err = l.away.Close()
	}
	err = errors.Join(err, l.server.Close(), l.group.Wait())
	l.serving.Lock()   // Wait until the last request is over.
	l.serving.Unlock() //nolint:staticcheck // It was taken to wait.
	if l.idle != nil {
		l.idle()
	}
	if err != nil {
		return fmt.Errorf("ending the proxy: %w", err)
	}
	return nil
}

// WriteKubeconfig writes a kubeconfig file with the address of the listener and the given token.
func (l *Listener) WriteKubeconfig(path, token string) error {
	const name = "bench"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: l.address, CertificateAuthorityData: l.authority}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing the contender's kubeconfig: %w", err)
	}
	return nil
}
