package controller

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// authority signs the certificates of clients.
type authority struct {
	t    *testing.T
	self *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	made := &authority{t: t}
	made.self = &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	signed := made.issue(made.self)
	made.self = signed.Leaf
	return made
}

// issue signs a certificate. The first one is the authority's own.
func (a *authority) issue(template *x509.Certificate) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	by := a.key
	if by == nil {
		a.key, by = key, key
	}
	template.SerialNumber, template.NotBefore = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, a.self, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(signed)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) client(name string, organizations ...string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: organizations}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

func (a *authority) writeTo(file string) {
	a.t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.self.Raw}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// listening runs a server of metrics behind the guard of a manager, and returns its address.
func listening(t *testing.T, api *reviewer, authorities string) string {
	t.Helper()
	made, err := NewManager(&rest.Config{Transport: api}, scheme.Scheme, Options{
		Protection: Protected, ClientAuthorities: authorities, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := made.guard.server("metrics server", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "open") }))
	var config net.ListenConfig
	if server.listener, err = config.Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	server.log = made.log
	group := lifecycle.New(context.Background())
	group.Go("server", server.run)
	t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	return server.listener.Addr().String()
}

// requestWith returns the answer to a request with certificates and a token, over a connection of its own.
func requestWith(t *testing.T, address, token string, certificates ...tls.Certificate) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	settings := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // The server signs its certificate itself.
	settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if len(certificates) == 0 {
			return &tls.Certificate{}, nil
		}
		return &certificates[0], nil // Also one of another authority, which Certificates would leave out.
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: settings}}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestACertificateOfAClientCountsBesideTokens(t *testing.T) {
	trusted, other := newAuthority(t), newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	trusted.writeTo(file)
	api := &reviewer{}
	address := listening(t, api, file)
	wants := func(what string, code int, says, token string, certificates ...tls.Certificate) {
		t.Helper()
		if got, said := requestWith(t, address, token, certificates...); got != code || !strings.Contains(said, says) {
			t.Errorf("%s is answered with %d %q, want %d %q", what, got, said, code, says)
		}
	}
	prometheus := trusted.issue(trusted.client("prometheus", "ops", "watchers"))
	wants("a certificate", 200, "open", "", prometheus)
	wants("the certificate again", 200, "open", "", prometheus)
	want := `[{"nonResourceAttributes":{"path":"/metrics","verb":"get"},"user":"prometheus","groups":["ops","watchers","system:authenticated"]}]`
	if got, err := json.Marshal(api.access); err != nil || string(got) != want || api.tokens != 0 {
		t.Errorf("the API server was asked %s and about %d tokens, want %s: %v", got, api.tokens, want, err)
	}
	wants("a certificate of a user who may not", 403, `"jane" may not get this URL`, "", trusted.issue(trusted.client("jane")))
	wants("a certificate before a token", 403, `"jane" may not`, "prometheus.1", trusted.issue(trusted.client("jane")))
	wants("nothing", 401, "or present a certificate", "")
	wants("a token", 200, "open", "prometheus.2")
	foreign := other.issue(other.client("prometheus"))
	wants("a certificate of another authority", 401, "unknown authority", "", foreign)
	wants("the same with a token", 200, "open", "prometheus.3", foreign)
	wants("the same with a bad token", 401, "does not accept the token", canary, foreign)
	expired := trusted.client("prometheus")
	expired.NotAfter = time.Now().Add(-time.Minute)
	wants("an expired certificate", 401, "expired", "", trusted.issue(expired))
	serving := trusted.client("prometheus")
	serving.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	wants("a certificate of a server", 401, "incompatible key usage", "", trusted.issue(serving))
	wants("a certificate without a user", 401, "no common name", "", trusted.issue(trusted.client("", "system:masters")))

	// The file is followed.
	if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	wants("a certificate while the file is nonsense", 200, "open", "", prometheus)
	other.writeTo(file)
	wants("a certificate of the former authority", 401, "unknown authority", "", prometheus)
	wants("a certificate of the new authority", 200, "open", "", foreign)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	wants("a certificate without the file", 200, "open", "", foreign)
}

func TestClientAuthoritiesThatCannotCountAreRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, options := range map[string]Options{
		"ClientAuthorities is given, but the servers are plain HTTP": {ClientAuthorities: empty},
		"has no certificate; give a file in PEM":                     {ClientAuthorities: empty, Protection: Protected},
		"reading ClientAuthorities: open":                            {ClientAuthorities: empty + "x", Protection: Protected},
	} {
		if _, err := NewManager(&rest.Config{}, scheme.Scheme, options); err == nil || !strings.HasPrefix(err.Error(), "manager: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}
