// Package connection is how the load and the ideal client speak with the API server: over
// one HTTP/2 connection for all requests, without a limit of their rate, in protobuf where
// the API server knows it.
package connection

import (
	"fmt"
	"net/http"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Connection is one that is shared by its clients. Its methods may be called from any
// goroutine.
type Connection struct {
	http   *http.Client
	core   kubernetes.Interface
	heroes rest.Interface
	codec  runtime.ParameterCodec
}

// New makes a connection to the API server of a client configuration, which it leaves as
// it is. It is dialled with the first request.
func New(config *rest.Config) (*Connection, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf
	core, err := kubernetes.NewForConfigAndClient(binary, shared)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.APIPath, config.GroupVersion = "/apis", &v1.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	heroes, err := rest.RESTClientForConfigAndClient(config, shared)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	return &Connection{http: shared, core: core, heroes: heroes, codec: runtime.NewParameterCodec(scheme)}, nil
}

// Core is the client of the built-in kinds. It speaks protobuf.
func (c *Connection) Core() kubernetes.Interface { return c.core }

// Heroes is the client of BellerophonSimple objects, in [v1.GroupVersion]. It speaks JSON:
// custom resources have no other encoding.
func (c *Connection) Heroes() rest.Interface { return c.heroes }

// ParameterCodec encodes the options of requests of [Connection.Heroes].
func (c *Connection) ParameterCodec() runtime.ParameterCodec { return c.codec }

// Close closes the connection, once no request uses it.
func (c *Connection) Close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }
