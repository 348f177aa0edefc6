package controller

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"k8s.io/client-go/rest"
)

// Protection selects how the metrics server and the profile server are protected. The health server is
// always open, because the kubelet sends no token.
type Protection string

const (
	// ProtectedInCluster protects the servers as [Protected] does if the manager works on the cluster
	// whose pod it runs in: [rest.InClusterConfig] succeeds, and names the host of the manager's
	// configuration. Elsewhere the servers are open, and must have loopback addresses. It is the
	// default.
	ProtectedInCluster Protection = ""

	// Protected serves HTTPS to clients that the API server accepts. A request needs a bearer token, or
	// a certificate of Options.ClientAuthorities. A TokenReview or the certificate says who the client
	// is, and a SubjectAccessReview whether the client may get the URL: see the ClusterRole in
	// docs/usage.md. The manager itself needs the permissions of the ClusterRole system:auth-delegator.
	//
	// A permission counts for a minute, and a refusal for ten seconds. If the API server does not
	// answer, a request fails with the status 503.
	Protected Protection = "protected"

	// Unprotected serves plain HTTP to each client that reaches the addresses.
	Unprotected Protection = "unprotected"
)

// UnmarshalText reads the name of a protection: auto, protected or unprotected.
func (p *Protection) UnmarshalText(text []byte) error {
	switch read := Protection(text); read {
	case "auto", ProtectedInCluster:
		*p = ProtectedInCluster
	case Protected, Unprotected:
		*p = read
	default:
		return fmt.Errorf("protection is %q; allowed are auto, protected and unprotected", text)
	}
	return nil
}

// MarshalText writes the name that UnmarshalText reads.
func (p Protection) MarshalText() ([]byte, error) {
	if p == ProtectedInCluster {
		return []byte("auto"), nil
	}
	return []byte(p), nil
}

// InCluster reports whether a configuration is of the cluster whose pod the process runs in.
func InCluster(config *rest.Config) bool {
	own, err := rest.InClusterConfig()
	return err == nil && own.Host == config.Host
}

// checkAddresses returns an error if an address of the HTTP servers is not allowed. It replaces
// ProtectedInCluster by the protection that results.
func (o *Options) checkAddresses(inCluster bool) error {
	chosen := o.Protection
	switch chosen {
	case ProtectedInCluster:
		o.Protection = Unprotected
		if inCluster {
			o.Protection = Protected
		}
	case Protected, Unprotected:
	default:
		return fmt.Errorf("manager: Protection is %q; allowed are ProtectedInCluster, Protected and Unprotected", chosen)
	}
	for _, of := range []struct {
		option, address string
		open            bool // whether the server is always open
	}{{"MetricsAddress", o.MetricsAddress, false}, {"HealthAddress", o.HealthAddress, true}, {"ProfileAddress", o.ProfileAddress, false}} {
		if of.address == "" {
			continue
		}
		local, err := isLoopback(of.address)
		switch {
		case err != nil:
			return fmt.Errorf("manager: %s is %q: %w; give host:port, such as 127.0.0.1:8080, or :8080 for all interfaces", of.option, of.address, err)
		case !local && !of.open && chosen == ProtectedInCluster && !inCluster:
			return fmt.Errorf("manager: %s is %q, which other machines reach, and outside of the cluster nothing protects it; give a loopback address, such as 127.0.0.1:8080, or set Protection to Protected or Unprotected",
				of.option, of.address)
		}
	}
	switch given := o.Certificate; {
	case given == CertificateFiles{}:
	case given.File == "" || given.KeyFile == "":
		return fmt.Errorf("manager: Certificate has File %q and KeyFile %q; give both, or none for a certificate of the manager's own", given.File, given.KeyFile)
	case o.Protection != Protected:
		return errors.New("manager: Certificate is given, but the servers are plain HTTP here; set Protection to Protected, or leave Certificate empty")
	}
	if o.ClientAuthorities != "" && o.Protection != Protected {
		return errors.New("manager: ClientAuthorities is given, but the servers are plain HTTP here; set Protection to Protected, or leave ClientAuthorities empty")
	}
	return nil
}

// isLoopback reports whether only this machine reaches an address.
func isLoopback(address string) (bool, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false, errors.New("it is no address with a port")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false, fmt.Errorf("the port is %q; allowed is 0 to 65535", port)
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback(), nil
}
