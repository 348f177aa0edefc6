package controller

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"math"
	"math/big"
	"net"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// CertificateFiles names the files of a server's certificate and of its key, in PEM. The certificate comes
// first in its file, and intermediate ones follow.
type CertificateFiles struct{ File, KeyFile string }

const (
	// ownLifetime is how long a certificate of the manager's own is valid. The manager makes another one
	// when less than ownRenewal is left.
	ownLifetime = 90 * 24 * time.Hour
	ownRenewal  = 30 * 24 * time.Hour
	// ownEarlier is how far the clock of a client may be behind.
	ownEarlier = time.Hour
)

// servingCertificate holds the certificate of the manager's servers. Its methods may be called from any goroutine.
type servingCertificate struct {
	from CertificateFiles // or empty for a certificate of the manager's own
	log  *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	read    [sha256.Size]byte // the hash of the files of the current certificate
	failure string            // of the last reading
}

// newServingCertificate reads the certificate of the files. Without files it makes one that is signed by itself.
func newServingCertificate(from CertificateFiles, log *slog.Logger) (*servingCertificate, error) {
	s := &servingCertificate{from: from, log: log}
	_, err := s.get(nil)
	return s, err
}

// get returns the certificate for a handshake. It reads the files each time, so a change counts from the
// next connection on. If the files do not fit, as halfway through their change, the previous certificate
// stays.
func (s *servingCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from == (CertificateFiles{}) {
		return s.own()
	}
	err := s.follow()
	switch {
	case err == nil:
		s.failure = ""
	case s.current == nil:
		return nil, err
	case err.Error() != s.failure:
		s.failure = err.Error()
		s.log.Warn("the certificate of the servers cannot be read again; the previous one stays", "error", err)
	}
	return s.current, nil
}

// expiry returns the metric of the certificate's end.
func (s *servingCertificate) expiry() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "bellerophon_server_certificate_expiry_timestamp_seconds", Help: "When the certificate of the metrics server expires, in seconds since 1970.",
	}, func() float64 {
		current, err := s.get(nil)
		if err != nil {
			return math.NaN() // Only a certificate of the manager's own can fail here.
		}
		return float64(current.Leaf.NotAfter.Unix())
	})
}

// follow reads the files, and takes the certificate in them if they have changed.
func (s *servingCertificate) follow() error {
	certificate, err := os.ReadFile(s.from.File)
	if err != nil {
		return fmt.Errorf("reading Certificate.File: %w", err)
	}
	key, err := os.ReadFile(s.from.KeyFile)
	if err != nil {
		return fmt.Errorf("reading Certificate.KeyFile: %w", err)
	}
	read := sha256.Sum256(bytes.Join([][]byte{certificate, key}, []byte{0}))
	if s.current != nil && read == s.read {
		return nil
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("the certificate of %s with the key of %s: %w", s.from.File, s.from.KeyFile, err)
	}
	s.current, s.read = &pair, read
	return nil
}

// own returns a certificate of the manager's own, which is kept in memory only. It encrypts, but a client
// cannot know whose it is.
func (s *servingCertificate) own() (*tls.Certificate, error) {
	now := time.Now()
	if s.current != nil && now.Before(s.current.Leaf.NotAfter.Add(-ownRenewal)) {
		return s.current, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key for the servers: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("making a certificate for the servers: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "self-signed certificate of a manager"},
		NotBefore:    now.Add(-ownEarlier),
		NotAfter:     now.Add(ownLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate for the servers: %w", err)
	}
	leaf, err := x509.ParseCertificate(signed)
	if err != nil {
		return nil, fmt.Errorf("reading the signed certificate for the servers: %w", err)
	}
	s.current = &tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key, Leaf: leaf}
	return s.current, nil
}
