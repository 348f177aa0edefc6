package faultproxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// lifetime is the validity of the certificates that a proxy starts with.
const lifetime = 24 * time.Hour

// authority signs the certificates of a proxy.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	made := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fault proxy"},
		NotBefore: time.Now().Add(-2 * lifetime), NotAfter: time.Now().Add(365 * lifetime),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, made, made, key.Public(), key)
	if err != nil {
		return nil, err
	}
	made, err = x509.ParseCertificate(signed)
	return &authority{made, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})}, err
}

// issue returns a certificate for a use, and its key. It ends after a time, or has ended before now.
func (a *authority) issue(use x509.ExtKeyUsage, validity time.Duration) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	made := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "127.0.0.1"},
		NotBefore: time.Now().Add(min(0, validity) - time.Hour), NotAfter: time.Now().Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	signed, err := x509.CreateCertificate(rand.Reader, made, a.certificate, key.Public(), a.key)
	return signed, key, err
}

// knows reports whether a request came with a certificate for clients that is valid now.
func (a *authority) knows(state *tls.ConnectionState) bool {
	if state == nil || len(state.PeerCertificates) == 0 {
		return false
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

// Renew replaces the certificate of the proxy by one that ends after a time. With 0 or less it has
// expired already, and clients refuse new connections. Open connections stay: see [Proxy.Drop].
func (p *Proxy) Renew(validity time.Duration) error {
	signed, key, err := p.authority.issue(x509.ExtKeyUsageServerAuth, validity)
	if err != nil {
		return fmt.Errorf("faultproxy: renew the certificate: %w", err)
	}
	p.certificate.Store(&tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key})
	return nil
}

// ClientCertificate returns a certificate and its key as PEM. A client may use them instead of the token,
// for a time. Then its requests are refused with code 401, also on open connections.
func (p *Proxy) ClientCertificate(validity time.Duration) (certificate, key []byte, err error) {
	signed, private, err := p.authority.issue(x509.ExtKeyUsageClientAuth, validity)
	if err == nil {
		key, err = x509.MarshalPKCS8PrivateKey(private)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("faultproxy: issue a certificate: %w", err)
	}
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), nil
}
