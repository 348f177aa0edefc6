// Package connection connects the load and the ideal client to the API server. All requests share
// one HTTP/2 connection without a rate limit, or have connections of their own: see [HTTP1]. They use
// protobuf where the API server supports it.
package connection

import (
	"fmt"
	"net/http"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Connection is a connection that its clients share. Its methods may be called from any
// goroutine.
type Connection struct {
	config *rest.Config
	http   *http.Client
	core   kubernetes.Interface
	heroes rest.Interface
	codec  runtime.ParameterCodec
}

// New creates a connection to the API server of a client configuration. It does not change the
// configuration. The first request opens the connection.
func New(config *rest.Config) (*Connection, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for %s: %w", config.Host, err)
	}
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf
	core, err := kubernetes.NewForConfigAndClient(binary, shared)
	if err != nil {
		return nil, fmt.Errorf("create a client for %s: %w", config.Host, err)
	}
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	made := &Connection{config: config, http: shared, core: core, codec: runtime.NewParameterCodec(scheme)}
	if made.heroes, err = made.Client(v1.GroupVersion, scheme); err != nil {
		return nil, err
	}
	return made, nil
}

// Client creates another client of the connection, for a group and version whose types are in a scheme. It uses
// JSON.
func (c *Connection) Client(of schema.GroupVersion, types *runtime.Scheme) (rest.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.APIPath, config.GroupVersion = "/apis", &of
	config.NegotiatedSerializer = serializer.NewCodecFactory(types).WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(config, c.http)
	if err != nil {
		return nil, fmt.Errorf("create a client of %v for %s: %w", of, config.Host, err)
	}
	return client, nil
}

// Core returns the client of the built-in kinds. It uses protobuf.
func (c *Connection) Core() kubernetes.Interface { return c.core }

// Heroes returns the client of BellerophonSimple objects, in [v1.GroupVersion]. It uses JSON,
// because custom resources have no other encoding.
func (c *Connection) Heroes() rest.Interface { return c.heroes }

// ParameterCodec returns the codec for the options of requests of [Connection.Heroes].
func (c *Connection) ParameterCodec() runtime.ParameterCodec { return c.codec }

// Close closes the connection when no request uses it.
func (c *Connection) Close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }
