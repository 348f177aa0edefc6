package controller

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// clientAuthorities verifies the certificates of clients. Its methods may be called from any goroutine, and
// on nil.
type clientAuthorities struct {
	file string
	log  *slog.Logger

	mu      sync.Mutex
	current *x509.CertPool
	read    []byte // what the file had
	failure string // of the last reading
}

// newClientAuthorities reads the authorities of a file. It returns nil without a file.
func newClientAuthorities(file string, log *slog.Logger) (*clientAuthorities, error) {
	if file == "" {
		return nil, nil
	}
	made := &clientAuthorities{file: file, log: log}
	return made, made.follow()
}

// pool returns the authorities. It reads the file each time. If that fails, the previous ones stay.
func (c *clientAuthorities) pool() *x509.CertPool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch err := c.follow(); {
	case err == nil:
		c.failure = ""
	case err.Error() != c.failure:
		c.failure = err.Error()
		c.log.Warn("the authorities of clients cannot be read again; the previous ones stay", "error", err)
	}
	return c.current
}

// follow reads the file, and takes the authorities in it if they have changed.
func (c *clientAuthorities) follow() error {
	content, err := os.ReadFile(c.file)
	if err != nil {
		return fmt.Errorf("reading ClientAuthorities: %w", err)
	}
	if c.current != nil && bytes.Equal(content, c.read) {
		return nil
	}
	made := x509.NewCertPool()
	if !made.AppendCertsFromPEM(content) {
		return fmt.Errorf("reading ClientAuthorities: %s has no certificate; give a file in PEM", c.file)
	}
	c.current, c.read = made, content
	return nil
}

// identify returns the user of a client's certificate, or what is wrong with it. Without a certificate,
// both are empty. It verifies for each request, so that a certificate that expires does not outlast that.
func (c *clientAuthorities) identify(connection *tls.ConnectionState) (by credentials, wrong string) {
	if c == nil || connection == nil || len(connection.PeerCertificates) == 0 {
		return credentials{}, ""
	}
	leaf, between := connection.PeerCertificates[0], x509.NewCertPool()
	for _, intermediate := range connection.PeerCertificates[1:] {
		between.AddCert(intermediate)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: c.pool(), Intermediates: between, CurrentTime: time.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	switch {
	case err != nil:
		return credentials{}, err.Error()
	case leaf.Subject.CommonName == "":
		return credentials{}, "its subject has no common name"
	}
	digest := sha256.Sum256(leaf.Raw)
	groups := append(slices.Clone(leaf.Subject.Organization), "system:authenticated") // As an API server does.
	return credentials{user: &authenticationv1.UserInfo{Username: leaf.Subject.CommonName, Groups: groups}, print: digest[:]}, ""
}
