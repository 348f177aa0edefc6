package webhook

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
)

// The defaults of [Options].
const (
	DefaultAddress       = ":9443"
	DefaultLifetime      = 90 * 24 * time.Hour
	DefaultShutdownDelay = 5 * time.Second
	DefaultGrace         = 30 * time.Second
)

// Options configures a [Server]. Either Service or URL is required.
type Options struct {
	Address string // where the server listens, as "host:port"; default DefaultAddress

	// Service is the Service through which API servers reach the server, as "namespace/name", or
	// "namespace/name:port" if its port is not 443.
	Service string

	// URL is the address of a server without a Service, such as "https://10.0.0.7:9443". Without a
	// port, the port where the server listens is added, which suits tests.
	URL string

	// Name names the webhook configurations. The default for a Service is "name.namespace". It is
	// required with URL. Two servers of one cluster need different names.
	Name string

	// ClusterRole names a ClusterRole that owns the webhook configurations, such as the one that permits
	// the server to write them. They are deleted with it. Otherwise they stay when the program is removed,
	// and refuse objects: a server that still runs creates a deleted one again. It needs the permission to
	// get the ClusterRole. Resource definitions have no owner.
	ClusterRole string

	Certificates Certificates

	// ShutdownDelay is how long new requests are accepted after the context of Run has ended, because
	// API servers learn late that a pod leaves: up to 1 h. The default is DefaultShutdownDelay with
	// Service, and none with URL. Negative means none.
	ShutdownDelay time.Duration
	Grace         time.Duration // for requests in flight after ShutdownDelay: 1 ms to 1 h; default DefaultGrace

	Registry *prometheus.Registry // where metrics are registered, such as a manager's; default a new one
	Logger   *slog.Logger         // default slog.Default()
}

// Certificates says where certificates come from. By default the server issues them and keeps them in the
// Secret "name-certificates" beside the Service. With URL and without a Secret, they stay in memory.
type Certificates struct {
	// Secret is the Secret of the certificates, as "namespace/name", with the entries tls.crt, tls.key
	// and ca.crt. It need not exist. An existing Secret without entries is filled. If it is deleted, the
	// server issues new certificates.
	Secret string

	// External means that another program writes Secret, such as cert-manager. The server reads and
	// follows it, and injects ca.crt. Without ca.crt, API servers must trust the certificate already.
	External bool

	// Folder is a folder with files of the names above, such as a mounted Secret, instead of Secret.
	// The files are read and followed as with External.
	Folder string

	// Lifetime is how long an issued certificate is valid: 1 h to 87600 h; default DefaultLifetime. It
	// is rotated when a third of the time is left. Each has an authority of its own, whose key is
	// dropped at once.
	Lifetime time.Duration
}

// target is where API servers reach the server.
type target struct {
	service types.NamespacedName
	port    int64    // of the service
	url     *url.URL // nil with a service
}

// host returns the name that a certificate must be valid for.
func (t target) host() string {
	if t.url != nil {
		return t.url.Hostname()
	}
	return t.service.Name + "." + t.service.Namespace + ".svc"
}

// hosts returns all names of an issued certificate.
func (t target) hosts() []string {
	if t.url != nil {
		return []string{t.host()}
	}
	return []string{t.host(), t.host() + ".cluster.local"}
}

// withDefaults fills in the defaults, and returns an error for an option that is out of its range.
func (o Options) withDefaults() (Options, target, types.NamespacedName, error) {
	var secret types.NamespacedName
	to, err := o.target()
	if err != nil {
		return o, to, secret, err
	}
	if o.Address == "" {
		o.Address = DefaultAddress
	}
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		return o, to, secret, fmt.Errorf("webhook: Address is %q; give host:port, such as :9443: %w", o.Address, err)
	}
	switch {
	case o.Name == "" && to.url != nil:
		return o, to, secret, errors.New("webhook: Name is empty; with URL, name the webhook configurations")
	case o.Name == "":
		o.Name = to.service.Name + "." + to.service.Namespace
	}
	if wrong := validation.NameIsDNSSubdomain(o.Name, false); len(wrong) > 0 {
		return o, to, secret, fmt.Errorf("webhook: Name is %q, which is not the name of an object: %s", o.Name, strings.Join(wrong, "; "))
	}
	if wrong := content.IsPathSegmentName(o.ClusterRole); len(wrong) > 0 {
		return o, to, secret, fmt.Errorf("webhook: ClusterRole is %q, which is not the name of one: %s", o.ClusterRole, strings.Join(wrong, "; "))
	}
	switch {
	case o.ShutdownDelay == 0 && to.url == nil:
		o.ShutdownDelay = DefaultShutdownDelay
	case o.ShutdownDelay < 0:
		o.ShutdownDelay = 0
	case o.ShutdownDelay > time.Hour:
		return o, to, secret, fmt.Errorf("webhook: ShutdownDelay is %v; allowed is up to 1h, or negative for none", o.ShutdownDelay)
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.Grace < time.Millisecond || o.Grace > time.Hour {
		return o, to, secret, fmt.Errorf("webhook: Grace is %v; allowed is 1ms to 1h", o.Grace)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	o.Certificates, secret, err = o.Certificates.withDefaults(to)
	return o, to, secret, err
}

func (o Options) target() (target, error) {
	switch {
	case o.Service == "" && o.URL == "":
		return target{}, errors.New("webhook: Service and URL are empty; say with one of them how API servers reach the server")
	case o.Service != "" && o.URL != "":
		return target{}, fmt.Errorf("webhook: Service is %q and URL is %q; give one of them", o.Service, o.URL)
	case o.URL != "":
		parsed, err := url.Parse(o.URL)
		if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil {
			return target{}, fmt.Errorf("webhook: URL is %q; give https://host:port", o.URL)
		}
		if strings.Trim(parsed.Path, "/") != "" {
			return target{}, fmt.Errorf("webhook: URL is %q; leave out the path, since each webhook has its own", o.URL)
		}
		return target{url: parsed}, nil
	}
	named, port, hasPort := strings.Cut(o.Service, ":")
	to := target{port: 443}
	var err error
	if hasPort {
		to.port, err = strconv.ParseInt(port, 10, 32)
	}
	if err != nil || to.port < 1 || to.port > 65535 {
		return target{}, fmt.Errorf("webhook: Service is %q; give its port as a number from 1 to 65535", o.Service)
	}
	to.service, err = namespaced(named)
	if err != nil {
		return target{}, fmt.Errorf("webhook: Service is %q; give namespace/name or namespace/name:port: %w", o.Service, err)
	}
	return to, nil
}

func (c Certificates) withDefaults(to target) (Certificates, types.NamespacedName, error) {
	var secret types.NamespacedName
	switch {
	case c.Folder != "" && (c.Secret != "" || c.External):
		return c, secret, errors.New("webhook: Certificates has Folder together with Secret or External; a folder needs neither")
	case c.External && c.Secret == "":
		return c, secret, errors.New("webhook: Certificates.External is set and Secret is empty; name the Secret that the other program writes")
	case (c.External || c.Folder != "") && c.Lifetime != 0:
		return c, secret, fmt.Errorf("webhook: Certificates.Lifetime is %v, but the server does not issue these certificates; leave it out", c.Lifetime)
	case c.Secret == "" && c.Folder == "" && to.url == nil:
		secret = types.NamespacedName{Namespace: to.service.Namespace, Name: to.service.Name + "-certificates"}
	case c.Secret != "":
		var err error
		if secret, err = namespaced(c.Secret); err != nil {
			return c, secret, fmt.Errorf("webhook: Certificates.Secret is %q; give namespace/name: %w", c.Secret, err)
		}
	}
	if c.Lifetime == 0 {
		c.Lifetime = DefaultLifetime
	}
	if c.Lifetime < time.Hour || c.Lifetime > 87600*time.Hour {
		return c, secret, fmt.Errorf("webhook: Certificates.Lifetime is %v; allowed is 1h to 87600h", c.Lifetime)
	}
	return c, secret, nil
}

// namespaced parses "namespace/name".
func namespaced(text string) (types.NamespacedName, error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found {
		return types.NamespacedName{}, errors.New("it has no namespace")
	}
	if wrong := validation.ValidateNamespaceName(namespace, false); len(wrong) > 0 {
		return types.NamespacedName{}, fmt.Errorf("%q is not the name of a namespace: %s", namespace, strings.Join(wrong, "; "))
	}
	if wrong := validation.NameIsDNSSubdomain(name, false); len(wrong) > 0 {
		return types.NamespacedName{}, fmt.Errorf("%q is not the name of an object: %s", name, strings.Join(wrong, "; "))
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
