package canary_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/canary"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// record returns a record of a log that has a value.
func record(value any) string {
	var text strings.Builder
	slog.New(slog.NewTextHandler(&text, nil)).Info("shown", "value", value)
	return text.String()
}

func TestAValueIsFoundInWhateverFormItIsShown(t *testing.T) {
	value := append([]byte(rand.Text()), '\n', 0xff, 7)
	values, other := canary.New(value), canary.New([]byte(rand.Text()))
	secret := corev1.Secret{Data: map[string][]byte{"password": value}}
	shown := map[string]string{
		"as it is":                 "a" + string(value) + "b",
		"a record":                 record(string(value)),
		"a record of an object":    record(secret),
		"an object with %v":        fmt.Sprintf("%v", secret),
		"an object with %#v":       fmt.Sprintf("%#v", secret),
		"an object with %x":        fmt.Sprintf("%x", secret),
		"an object with %X":        fmt.Sprintf("%X", secret),
		"an object by its method":  secret.String(),
		"JSON":                     string(must(json.Marshal(secret))(t)),
		"base64 for URLs":          base64.RawURLEncoding.EncodeToString(value),
		"base64 after one byte":    base64.StdEncoding.EncodeToString(append([]byte{1}, value...)),
		"base64 between two bytes": base64.StdEncoding.EncodeToString(append(append([]byte{1, 2}, value...), 3)),
	}
	for where, text := range shown {
		if values.In(text) == "" {
			t.Errorf("%s: the value is not found in %q", where, text)
		}
		if found := other.In(text); found != "" {
			t.Errorf("%s: another value is found: %q", where, found)
		}
	}
	if found := values.In(strings.Repeat("a", 500) + string(value) + strings.Repeat("b", 500)); len(found) > 500 || !strings.HasPrefix(found, "plain: aa") || !strings.HasSuffix(found, "bb") {
		t.Errorf("the text around a value is %q", found)
	}
}

func TestAPrivateKeyIsFoundByEachOfItsParts(t *testing.T) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	raw := must(x509.MarshalPKCS8PrivateKey(key))(t)
	encoded := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	lines := strings.Split(string(encoded), "\n")
	values := canary.New()
	if err := values.AddKey(encoded); err != nil {
		t.Fatal(err)
	}
	number := must(key.Bytes())(t)
	for where, text := range map[string]string{
		"PEM": string(encoded), "a record of PEM": record(string(encoded)), "the first line": lines[1], "the last line": lines[3],
		"PEM in base64": base64.StdEncoding.EncodeToString(encoded), "a line in base64": base64.StdEncoding.EncodeToString([]byte("  " + lines[2])),
		"DER": string(raw), "DER in base64": base64.StdEncoding.EncodeToString(raw), "DER as numbers": fmt.Sprintf("%v", raw),
		"the number": new(big.Int).SetBytes(number).String(), "the number's bytes": fmt.Sprintf("%v", number), "the number in hexadecimal": fmt.Sprintf("%x", number),
		"the key with %+v": fmt.Sprintf("%+v", key),
	} {
		if values.In(text) == "" {
			t.Errorf("%s: the key is not found in %q", where, text)
		}
	}
	public := must(x509.MarshalPKIXPublicKey(key.Public()))(t)
	for _, text := range []string{"-----BEGIN PRIVATE KEY-----", base64.StdEncoding.EncodeToString(public), fmt.Sprintf("%+v", key.Public())} {
		if found := values.In(text); found != "" {
			t.Errorf("the key is found where only public parts are: %q", found)
		}
	}
	nonsense := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("nonsense")})
	for _, wrong := range [][]byte{nil, nonsense} {
		if err := canary.New().AddKey(wrong); err == nil || !strings.HasPrefix(err.Error(), "canary: ") {
			t.Errorf("the key %q gives %v", wrong, err)
		}
	}
}

func TestPagesAreUnpackedAndMustBeThere(t *testing.T) {
	missing := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		switch path := request.URL.Path; path {
		case missing:
			http.NotFound(w, request)
		case "/readyz":
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		case "/debug/pprof/heap":
			var packed bytes.Buffer
			writer := gzip.NewWriter(&packed)
			_, _ = io.WriteString(writer, "the profile "+request.URL.RawQuery)
			_ = writer.Close()
			_, _ = w.Write(packed.Bytes())
		default:
			_, _ = io.WriteString(w, "the page "+path)
		}
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	addresses := map[string]string{"metrics server": address, "health server": address, "profile server": address}
	shown := must(canary.Pages(t.Context(), addresses))(t)
	for path, want := range map[string]string{
		"/metrics": "the page /metrics", "/debug/manager?follow=false": "the page /debug/manager", "/debug/manager": "the page /debug/manager", "/readyz": "not ready\n",
		"/debug/pprof/heap?debug=0": "the profile debug=0", "/debug/pprof/goroutine?debug=2": "the page /debug/pprof/goroutine",
	} {
		if shown[path] != want {
			t.Errorf("%s shows %q, want %q", path, shown[path], want)
		}
	}
	missing = "/metrics"
	if _, err := canary.Pages(t.Context(), addresses); err == nil || !strings.Contains(err.Error(), "get /metrics of the metrics server") {
		t.Errorf("a missing page gives %v", err)
	}
}

func TestTheLogHasTheRecordsOfAllGoroutinesAndOfClientGo(t *testing.T) {
	log, logger := canary.CaptureLogs(t)
	group := lifecycle.New(t.Context())
	for i := range 8 {
		group.Go("writer", func(context.Context) error {
			logger.Debug("a record", "number", i)
			klog.Background().V(7).Info("a record of client-go", "number", i)
			klog.Background().V(8).Info("the body of a request")
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	if strings.Count(text, `msg="a record"`) != 8 || strings.Count(text, "a record of client-go") != 8 || strings.Contains(text, "body") {
		t.Errorf("the log is:\n%s", text)
	}
}
