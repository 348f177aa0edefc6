package webhook

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// The entries of a Secret, and the files of a folder.
const (
	entryCertificate = "tls.crt"
	entryKey         = "tls.key"
	entryAuthorities = "ca.crt"
)

// skew is how far the clock of an API server may be behind.
const skew = time.Hour

// pair is a certificate with its key, and the authorities to trust.
type pair struct {
	certificate tls.Certificate
	leaf        *x509.Certificate
	authorities authorities
}

// isValid reports whether there is a certificate that is valid at a time.
func (p *pair) isValid(at time.Time) bool { return p != nil && at.Before(p.leaf.NotAfter) }

// is reports whether two pairs have the same certificate.
func (p *pair) is(other *pair) bool {
	return p != nil && other != nil && bytes.Equal(p.leaf.Raw, other.leaf.Raw)
}

// newPair decodes a pair, and checks that it is valid for a host now. Its errors hold nothing of the key.
func newPair(entries map[string][]byte, host string, now time.Time) (*pair, error) {
	for _, name := range []string{entryCertificate, entryKey} {
		if len(entries[name]) == 0 {
			return nil, fmt.Errorf("there is no %s", name)
		}
	}
	certificate, err := tls.X509KeyPair(entries[entryCertificate], entries[entryKey])
	if err != nil {
		return nil, fmt.Errorf("%s and %s do not make a pair: %w", entryCertificate, entryKey, err)
	}
	made := &pair{certificate: certificate, leaf: certificate.Leaf}
	if made.authorities, err = parseAuthorities(entries[entryAuthorities]); err != nil {
		return nil, fmt.Errorf("%s: %w", entryAuthorities, err)
	}
	if !made.isValid(now) {
		return nil, fmt.Errorf("the certificate expired at %v", made.leaf.NotAfter.UTC())
	}
	if err := made.leaf.VerifyHostname(host); err != nil {
		return nil, err
	}
	if len(made.authorities) == 0 {
		return made, nil // API servers trust it by other means.
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, authority := range made.authorities {
		roots.AddCert(authority)
	}
	for _, raw := range certificate.Certificate[1:] {
		if parsed, err := x509.ParseCertificate(raw); err == nil {
			between.AddCert(parsed)
		}
	}
	if _, err := made.leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now}); err != nil {
		return nil, fmt.Errorf("the certificate is not signed by an authority of %s: %w", entryAuthorities, err)
	}
	return made, nil
}

// issue creates a certificate for hosts, signed by a new authority. The key of the authority is dropped, so
// that nothing else can be signed with it.
func issue(hosts []string, lifetime time.Duration, now time.Time) (map[string][]byte, error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := func() (*x509.Certificate, error) {
		serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
		return &x509.Certificate{
			SerialNumber: serial, NotBefore: now.Add(-skew), NotAfter: now.Add(lifetime),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
		}, err
	}
	authority, err := template()
	if err != nil {
		return nil, err
	}
	leaf, err := template()
	if err != nil {
		return nil, err
	}
	// Two authorities of one bundle have different names.
	authority.Subject = pkix.Name{CommonName: "webhook authority " + authority.SerialNumber.Text(16)}
	authority.IsCA, authority.MaxPathLenZero, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	leaf.Subject, leaf.KeyUsage = pkix.Name{CommonName: "webhook"}, x509.KeyUsageDigitalSignature
	for _, host := range hosts {
		if address := net.ParseIP(host); address != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, address)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	authorityRaw, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	signer, err := x509.ParseCertificate(authorityRaw)
	if err != nil {
		return nil, err
	}
	leafRaw, err := x509.CreateCertificate(rand.Reader, leaf, signer, key.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	keyRaw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		entryCertificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leafRaw}),
		entryKey:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyRaw}),
		entryAuthorities: authorities{signer}.encode(),
	}, nil
}

// authorities are certificates that callers trust.
type authorities []*x509.Certificate

// parseAuthorities decodes a bundle. An empty bundle has no authorities.
func parseAuthorities(bundle []byte) (parsed authorities, err error) {
	for rest := bundle; len(bytes.TrimSpace(rest)) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("it is not PEM")
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it has a %s; only certificates are allowed", block.Type)
		}
		authority, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, authority)
	}
	return parsed, nil
}

func (a authorities) encode() []byte {
	var bundle []byte
	for _, authority := range a {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw})...)
	}
	return bundle
}

// printOf returns a fingerprint of a certificate.
func printOf(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.Raw)
	return hex.EncodeToString(sum[:])
}
