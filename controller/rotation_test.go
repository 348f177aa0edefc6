package controller

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	clientcmd "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"
)

// init shortens the interval at which transports look for new certificates. It cannot be a part of a
// test, because transports read the interval in goroutines that outlive the test.
func init() { transport.CertCallbackRefreshDuration = 10 * time.Millisecond }

// credential creates a client certificate with a serial number, and its key, as PEM.
func credential(t *testing.T, serial int64) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	made, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// doorkeeper is a server that accepts client certificates of one serial number only. It asks for the
// certificate once for each connection.
type doorkeeper struct {
	*httptest.Server
	mu     sync.Mutex
	takes  int64
	closed chan struct{} // receives a token for each closed connection
}

func newDoorkeeper(t *testing.T) *doorkeeper {
	t.Helper()
	d := &doorkeeper{takes: 1, closed: make(chan struct{}, 100)}
	d.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serial := r.TLS.PeerCertificates[0].SerialNumber.Int64()
		d.mu.Lock()
		defer d.mu.Unlock()
		if serial != d.takes {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprintf(w, "HTTP/%d certificate %d", r.ProtoMajor, serial)
	}))
	d.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			d.closed <- struct{}{}
		}
	}
	d.Config.ErrorLog = log.New(io.Discard, "", 0)
	d.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	d.EnableHTTP2 = true
	d.StartTLS()
	t.Cleanup(d.Close)
	return d
}

// take makes the server accept certificates of another serial number instead.
func (d *doorkeeper) take(serial int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.takes = serial
}

// awaitClosed waits until the client has closed its connection, and removes it from the idle ones.
func (d *doorkeeper) awaitClosed(t *testing.T, client *http.Client) {
	t.Helper()
	select {
	case <-d.closed:
	case <-time.After(30 * time.Second):
		t.Fatal("the connection of the old certificate stays open")
	}
	utilnet.CloseIdleConnectionsFor(client.Transport)
}

func ask(t *testing.T, client *http.Client, method, url string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		tracked := got.Conn.(*tls.Conn).NetConn() // client-go's connection, around a *connection
		inner := reflect.ValueOf(tracked).Elem().FieldByName("Conn").Interface()
		if of, is := inner.(*lineConnection); is != (method != http.MethodGet) {
			t.Errorf("a %s is sent over a %T around a %T, want a *lineConnection for writes alone", method, tracked, inner)
		} else if is {
			inner = of.Conn
		}
		if _, is := inner.(*connection); !is {
			t.Errorf("the request is sent over a %T around a %T, want a *connection", tracked, inner)
		}
	}})
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestACertificateOfACredentialPluginIsReplaced(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) { aCertificateOfACredentialPluginIsReplaced(t, method) })
	}
}

func aCertificateOfACredentialPluginIsReplaced(t *testing.T, method string) {
	server, folder := newDoorkeeper(t), t.TempDir()
	answer, plugin := filepath.Join(folder, "answer.json"), filepath.Join(folder, "plugin.sh")
	issue := func(serial int64) {
		certificate, key := credential(t, serial)
		said, err := json.Marshal(&clientauthentication.ExecCredential{
			TypeMeta: metav1.TypeMeta{APIVersion: clientauthentication.SchemeGroupVersion.String(), Kind: "ExecCredential"},
			Status:   &clientauthentication.ExecCredentialStatus{ClientCertificateData: string(certificate), ClientKeyData: string(key)},
		})
		if err == nil {
			err = os.WriteFile(answer, said, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(plugin, []byte("#!/bin/sh\ncat '"+answer+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	client, err := clientFor(&rest.Config{
		Host:            server.URL,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true, NextProtos: []string{"h2"}},
		ExecProvider: &clientcmd.ExecConfig{
			Command: plugin, APIVersion: clientauthentication.SchemeGroupVersion.String(), InteractiveMode: clientcmd.NeverExecInteractiveMode,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	issue(1)
	if code, said := ask(t, client, method, server.URL); code != http.StatusOK || said != "HTTP/2 certificate 1" {
		t.Fatalf("at first the server says %d, %q", code, said)
	}
	issue(2)
	server.take(2)
	// After a refusal client-go calls the plugin again, and closes the connection.
	if code, said := ask(t, client, method, server.URL); code != http.StatusUnauthorized || said != "HTTP/2 certificate 1" {
		t.Fatalf("with the old certificate the server says %d, %q", code, said)
	}
	server.awaitClosed(t, client)
	if code, said := ask(t, client, method, server.URL); code != http.StatusOK || said != "HTTP/2 certificate 2" {
		t.Errorf("with the new certificate the server says %d, %q", code, said)
	}
}

func TestACertificateFileThatChangesIsReplaced(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) { aCertificateFileThatChangesIsReplaced(t, method) })
	}
}

func aCertificateFileThatChangesIsReplaced(t *testing.T, method string) {
	server, folder := newDoorkeeper(t), t.TempDir()
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{
		Insecure: true, NextProtos: []string{"h2"}, CertFile: filepath.Join(folder, "tls.crt"), KeyFile: filepath.Join(folder, "tls.key"),
	}}
	issue := func(serial int64) {
		certificate, key := credential(t, serial)
		for name, content := range map[string][]byte{config.CertFile: certificate, config.KeyFile: key} {
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	issue(1)
	client, err := clientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	if code, said := ask(t, client, method, server.URL); code != http.StatusOK || said != "HTTP/2 certificate 1" {
		t.Fatalf("at first the server says %d, %q", code, said)
	}
	issue(2)
	server.take(2)
	server.awaitClosed(t, client) // The transport has read the new files.
	if code, said := ask(t, client, method, server.URL); code != http.StatusOK || said != "HTTP/2 certificate 2" {
		t.Errorf("with the new certificate the server says %d, %q", code, said)
	}
}
