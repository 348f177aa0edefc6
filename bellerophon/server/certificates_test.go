package server

import (
	"context"
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
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/member"
)

// authority signs certificates.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, serial: 1}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	content, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(content); err != nil {
		t.Fatal(err)
	}
	return a
}

// write writes a new certificate for loopback to files, as a renewed Secret does.
func (a *authority) write(dir string) Files {
	a.t.Helper()
	a.serial++
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: "member"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	content, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	files := Files{Certificate: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), Authorities: filepath.Join(dir, "ca.crt")}
	for name, block := range map[string]*pem.Block{
		files.Certificate: {Type: "CERTIFICATE", Bytes: content}, files.Key: {Type: "PRIVATE KEY", Bytes: encoded},
		files.Authorities: {Type: "CERTIFICATE", Bytes: a.certificate.Raw},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return files
}

// secureWorld starts three members with TLS.
func secureWorld(t *testing.T, files Files) *world {
	t.Helper()
	w := newWorld(t, 0, true)
	secure, err := files.load()
	if err != nil {
		t.Fatal(err)
	}
	w.client.Close()
	w.client = client.New(secure.client(), election)
	addresses := []string{freeAddress(t), freeAddress(t), freeAddress(t)}
	for i, address := range addresses {
		p := &process{options: Options{
			Name: fmt.Sprint("hero-", i), Listen: address, Address: address, Peers: addresses, Dir: filepath.Join(w.dir, fmt.Sprint(i)), Election: election, TLS: files,
		}}
		w.members = append(w.members, p)
		w.start(p)
	}
	return w
}

func TestMembersWithTLSNeedACertificateOfTheirAuthority(t *testing.T) {
	files := newAuthority(t).write(t.TempDir())
	w := secureWorld(t, files)
	w.ready(w.members...)
	status := func(files Files) error {
		secure, err := files.load()
		if err != nil {
			t.Fatal(err)
		}
		client := client.New(secure.client(), election)
		defer client.Close()
		_, err = client.Status(t.Context(), w.members[0].options.Address)
		return err
	}
	if err := status(files); err != nil {
		t.Errorf("a client with a certificate: %v", err)
	}
	if err := status(newAuthority(t).write(t.TempDir())); err == nil {
		t.Error("a client of another authority is answered")
	}
	pool := x509.NewCertPool()
	content, err := os.ReadFile(files.Authorities)
	if err != nil || !pool.AppendCertsFromPEM(content) {
		t.Fatal(err)
	}
	anonymous := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}}
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/metrics": 200, "/v1/status": 401, "/v1/keys": 401, "/v1/keys/a": 401, "/v1/watch": 401, "/v1/snapshot": 401, member.Path: 401,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+w.members[0].options.Address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := anonymous.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s without a certificate: %d, want %d", path, response.StatusCode, want)
		}
	}
}

func TestARenewedCertificateIsUsedWithoutARestart(t *testing.T) {
	dir, signing := t.TempDir(), newAuthority(t)
	secure, err := signing.write(dir).load()
	if err != nil {
		t.Fatal(err)
	}
	old, _ := secure.current()
	files := signing.write(dir)
	later := time.Now().Add(time.Second) // Files that were written in the same moment have the same time.
	if err := os.Chtimes(files.Certificate, later, later); err != nil {
		t.Fatal(err)
	}
	secure.checked = time.Time{}
	renewed, _ := secure.current()
	if old.Leaf.SerialNumber.Cmp(renewed.Leaf.SerialNumber) == 0 {
		t.Error("the old certificate is still in use")
	}
	// A file that is half written leaves the certificate in use.
	if err := os.WriteFile(files.Key, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(files.Key, later.Add(time.Second), later.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	secure.checked = time.Time{}
	if kept, _ := secure.current(); kept.Leaf.SerialNumber.Cmp(renewed.Leaf.SerialNumber) != 0 {
		t.Error("a damaged file changed the certificate")
	}
}

func TestOptionsThatCannotWorkSayWhatIsAllowed(t *testing.T) {
	dir := t.TempDir()
	for want, options := range map[string]Options{
		"give all of them, or none":           {Name: "a", TLS: Files{Certificate: "x"}},
		"reading the certificate":             {Name: "a", TLS: Files{Certificate: "x", Key: "x", Authorities: "x"}},
		"the name is empty":                   {},
		"allowed are 50ms to 1m":              {Name: "a", Election: time.Millisecond},
		"allowed are numbers of bytes from 1": {Name: "a", Quota: -1},
		"listening for requests":              {Name: "a", Listen: "nowhere:x"},
		"lack the address of this member":     {Name: "a", Peers: []string{"127.0.0.1:1"}},
		"opening a member":                    {Name: "a", Dir: "/dev/null/x"},
	} {
		if options.Dir == "" {
			options.Dir = filepath.Join(dir, want)
		}
		if options.Listen == "" {
			options.Listen = "127.0.0.1:0"
		}
		options.Log = quiet
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		if err := Run(ctx, options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", options, err, want)
		}
		stop()
	}
}
