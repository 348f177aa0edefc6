package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/servertest"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/member"
)

// write writes a new certificate for loopback to files, as a renewed Secret does.
func write(t *testing.T, by *servertest.Authority, dir string) Files {
	t.Helper()
	for name, content := range by.Issue() {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Files{Certificate: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), Authorities: filepath.Join(dir, "ca.crt")}
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
	files := write(t, servertest.NewAuthority(t), t.TempDir())
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
	if err := status(write(t, servertest.NewAuthority(t), t.TempDir())); err == nil {
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
	dir, signing := t.TempDir(), servertest.NewAuthority(t)
	secure, err := write(t, signing, dir).load()
	if err != nil {
		t.Fatal(err)
	}
	old, _ := secure.current()
	files := write(t, signing, dir)
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
