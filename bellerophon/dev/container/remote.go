package container

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
	httpspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

// remote is the executor for pods. It uses a WebSocket, or SPDY with servers and proxies that have no WebSockets.
type remote struct {
	config *rest.Config
	client rest.Interface
}

func (r *remote) exec(ctx context.Context, at Place, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	request := r.client.Post().Resource("pods").Namespace(at.Namespace).Name(at.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: at.Container, Command: argv, Stdin: true, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	// The libraries do not end a handshake when the context ends.
	open := &connections{}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		open.close()
	})
	defer func() {
		if !stop() {
			<-closed
		}
	}()
	stream, err := r.executor(request.URL(), open)
	if err != nil {
		return 0, err
	}
	err = stream.StreamWithContext(
		httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { open.add(got.Conn) }}),
		remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr})
	var ended utilexec.CodeExitError
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.As(err, &ended):
		return ended.Code, nil
	}
	return 0, err
}

// executor returns the executor for one request.
func (r *remote) executor(to *url.URL, open *connections) (remotecommand.Executor, error) {
	webSocket, err := remotecommand.NewWebSocketExecutor(r.config, http.MethodGet, to.String())
	if err != nil {
		return nil, fmt.Errorf("prepare a WebSocket: %w", err)
	}
	older, err := r.spdy(to, open)
	if err != nil {
		return nil, fmt.Errorf("prepare SPDY: %w", err)
	}
	return remotecommand.NewFallbackExecutor(webSocket, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

func (r *remote) spdy(to *url.URL, open *connections) (remotecommand.Executor, error) {
	proxy := http.ProxyFromEnvironment
	if r.config.Proxy != nil {
		proxy = r.config.Proxy
	}
	if through, err := proxy(&http.Request{URL: to}); err != nil || through != nil {
		// A handshake by a proxy goes on after the context's end, as in kubectl.
		return remotecommand.NewSPDYExecutor(r.config, http.MethodPost, to)
	}
	encryption, err := rest.TLSConfigFor(r.config)
	if err != nil {
		return nil, err
	}
	if encryption == nil {
		encryption = &tls.Config{MinVersion: tls.VersionTLS12} // The library does not check the server without it.
	}
	upgrader, err := httpspdy.NewRoundTripperWithConfig(httpspdy.RoundTripperConfig{
		PingPeriod:       pingPeriod,
		UpgradeTransport: &http.Transport{TLSClientConfig: encryption, DialContext: open.dial},
	})
	if err != nil {
		return nil, err
	}
	transport, err := rest.HTTPWrappersForConfig(r.config, upgrader)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewSPDYExecutorForTransports(transport, spdy.NewUpgraderForStreaming(upgrader), http.MethodPost, to)
}

// connections closes the connections of one request.
type connections struct {
	mu       sync.Mutex
	isClosed bool
	open     []net.Conn
}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	made, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		c.add(made)
	}
	return made, err
}

func (c *connections) add(made net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		_ = made.Close()
		return
	}
	c.open = append(c.open, made)
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isClosed = true
	for _, made := range c.open {
		_ = made.Close()
	}
}
