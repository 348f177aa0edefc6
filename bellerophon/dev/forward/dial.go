package forward

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	tunnel "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
	streamspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

// dialTimeout bounds one attempt to connect to a pod.
const dialTimeout = 10 * time.Second

// dial connects to a pod as kubectl does: by a websocket, or by SPDY if the API server or a proxy refuses websockets. The
// dialers of client-go would do the same, but without a context.
func (f *Forwards) dial(ctx context.Context, pod container.Place) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	address := f.pods.Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Pod).SubResource("portforward").URL()
	made, err := dialWebsocket(ctx, f.config, address)
	if err != nil && (httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)) {
		made, err = dialSPDY(ctx, f.config, address)
	}
	return made, err
}

func dialWebsocket(ctx context.Context, config *rest.Config, address *url.URL) (*link, error) {
	transport, holder, err := websocket.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	socket, err := websocket.Negotiate(transport, holder, request, tunnel.WebsocketsSPDYTunnelingPrefix+portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	through := portforward.NewTunnelingConnection("client", socket)
	connection, err := streamspdy.NewClientConnectionWithPings(through, portforward.PingPeriod)
	if err != nil {
		return nil, err
	}
	// A websocket that is closed first cannot block the last frames.
	return newLink(connection, func() { _ = through.Close() }), nil
}

func dialSPDY(ctx context.Context, config *rest.Config, address *url.URL) (*link, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), nil)
	if err != nil {
		return nil, err
	}
	connection, protocol, err := spdy.NegotiateStreaming(upgrader, &http.Client{Transport: transport}, request, portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	made := newLink(connection, func() {})
	if protocol != portforward.PortForwardProtocolV1Name {
		made.close()
		return nil, fmt.Errorf("the server answers with the protocol %q, not %q", protocol, portforward.PortForwardProtocolV1Name)
	}
	return made, nil
}
