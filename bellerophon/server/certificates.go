package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Files names the files of a certificate, as a Secret of type kubernetes.io/tls has them. All of them are given, or
// none.
type Files struct {
	Certificate string // PEM: the certificate of this member, for its server and for its requests
	Key         string // PEM
	Authorities string // PEM: who signs the certificates of members and clients
}

// certificates holds a certificate that is read again when its files change, because Secrets are renewed. A nil
// pointer means no TLS.
type certificates struct {
	files Files

	mu      sync.Mutex
	checked time.Time
	changed time.Time // of the newest file
	own     *tls.Certificate
	trusted *x509.CertPool
}

// checkEvery is how often the files are looked at, at most.
const checkEvery = 10 * time.Second

func (f Files) load() (*certificates, error) {
	if f == (Files{}) {
		return nil, nil //nolint:nilnil // No certificates are no error.
	}
	if f.Certificate == "" || f.Key == "" || f.Authorities == "" {
		return nil, errors.New("TLS needs the files of a certificate, its key, and its authorities; give all of them, or none")
	}
	c := &certificates{files: f}
	return c, c.read()
}

// read reads the files if they have changed.
func (c *certificates) read() error {
	var newest time.Time
	for _, name := range []string{c.files.Certificate, c.files.Key, c.files.Authorities} {
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("reading the certificate: %w", err)
		}
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	if newest.Equal(c.changed) {
		return nil
	}
	own, err := tls.LoadX509KeyPair(c.files.Certificate, c.files.Key)
	if err != nil {
		return fmt.Errorf("reading the certificate: %w", err)
	}
	content, err := os.ReadFile(c.files.Authorities)
	if err != nil {
		return fmt.Errorf("reading the authorities: %w", err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(content) {
		return fmt.Errorf("reading the authorities: %s has no certificate", c.files.Authorities)
	}
	c.own, c.trusted, c.changed = &own, trusted, newest
	return nil
}

// current returns the certificate and the authorities. While the files cannot be read, it returns the last ones.
func (c *certificates) current() (*tls.Certificate, *x509.CertPool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.checked) >= checkEvery {
		c.checked = now
		_ = c.read() // The files of a Secret change one after the other.
	}
	return c.own, c.trusted
}

// server returns the configuration of the listener. A client may have a certificate; the handler knows what needs one.
func (c *certificates) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"http/1.1"}, // HTTP/2 has no upgrades.
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			own, trusted := c.current()
			return &tls.Config{
				MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
				Certificates: []tls.Certificate{*own}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: trusted,
			}, nil
		},
	}
}

// Client returns the configuration of requests to members, or nil without files.
func (f Files) Client() (*tls.Config, error) {
	held, err := f.load()
	if err != nil {
		return nil, err
	}
	return held.client(), nil
}

// client returns the configuration of requests to other members, or nil without TLS.
func (c *certificates) client() *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own, _ := c.current()
			return own, nil
		},
		// The authorities can change, so the default check, which has fixed ones, is replaced by the same check.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies.
		VerifyConnection: func(state tls.ConnectionState) error {
			_, trusted := c.current()
			between := x509.NewCertPool()
			for _, one := range state.PeerCertificates[1:] {
				between.AddCert(one)
			}
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
				DNSName: state.ServerName, Roots: trusted, Intermediates: between,
			})
			return err
		},
	}
}
