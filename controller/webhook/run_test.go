package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestTheExampleWorksOnARealAPIServer(t *testing.T) {
	w := newWorld(t)
	w.install()
	w.removeAfterwards("example-" + w.namespace)
	group := lifecycle.New(context.Background())
	group.Go("example", func(ctx context.Context) error {
		return runWebhooks(ctx, w.config, webhook.Options{
			Address: "127.0.0.1:0", URL: "https://127.0.0.1", Name: "example-" + w.namespace, Logger: w.log.logger(),
		})
	})
	w.until("the example is in force", func() error {
		_, err := w.heroes("v1").Create(w.Context(), hero("many", "", 3), metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "pegasus carries 3 riders; at most 2 are allowed") {
			return errors.Join(errors.New("a hero with three riders is not denied as the example does"), err)
		}
		return nil
	})
	group.Stop()
	must(t, group.Wait())
}

// local is a server on loopback, with a fake API server and certificates in a folder.
type local struct {
	*webhook.Server
	folder string
	port   string
	log    *journal
	stop   func()
}

func newLocal(t *testing.T, options webhook.Options, validate func(context.Context, webhook.Request[*Hero]) error) *local {
	t.Helper()
	api, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	must(t, err)
	var free net.ListenConfig
	listener, err := free.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	must(t, listener.Close())
	made := &local{folder: t.TempDir(), port: port, log: &journal{}}
	made.write(t, webhook.Issue("127.0.0.1", time.Hour))
	options.Address, options.URL, options.Name = "127.0.0.1:"+port, "https://127.0.0.1", "local"
	options.Certificates.Folder, options.Logger = made.folder, made.log.logger()
	made.Server, err = webhook.New(&rest.Config{Host: "http://sourcestest", Transport: &fake{Server: api, apply: make(chan struct{}, 1)}}, types(), options)
	must(t, err)
	made.SetTimings(100*time.Millisecond, time.Minute, time.Hour)
	must(t, webhook.Validate(made.Server, validate))
	made.stop = start(t, made.Server)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := made.WaitReady(ctx); err != nil {
		t.Fatalf("%v\n%s", err, made.log)
	}
	return made
}

// write replaces the files as Kubernetes does in a mounted Secret: it swaps one symbolic link.
func (l *local) write(t *testing.T, entries map[string][]byte) {
	t.Helper()
	data, err := os.MkdirTemp(l.folder, "..")
	must(t, err)
	for name, content := range entries {
		must(t, os.WriteFile(filepath.Join(data, name), content, 0o600))
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(l.folder, name)); !errors.Is(err, os.ErrExist) {
			must(t, err)
		}
	}
	must(t, os.Symlink(filepath.Base(data), filepath.Join(l.folder, "..data_tmp")))
	must(t, os.Rename(filepath.Join(l.folder, "..data_tmp"), filepath.Join(l.folder, "..data")))
}

// client returns a client that trusts the authority of a pair.
func (l *local) client(t *testing.T, entries map[string][]byte) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(entries["ca.crt"]) {
		t.Fatal("there is no authority")
	}
	made := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true}
	t.Cleanup(made.CloseIdleConnections)
	return &http.Client{Transport: made}
}

func (l *local) send(client *http.Client, target, body string) (code int, text string, err error) {
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(context.Background(), method, "https://127.0.0.1:"+l.port+target, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(content), err
}

func TestCertificatesOfAMountedSecretAreFollowed(t *testing.T) {
	l := newLocal(t, webhook.Options{}, func(context.Context, webhook.Request[*Hero]) error { return nil })
	next := webhook.Issue("127.0.0.1", time.Hour)
	l.write(t, next)
	client := l.client(t, next)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 3000 {
		code, text, err := l.send(client, "/readyz", "")
		if err == nil {
			if code != http.StatusOK || text != "ok\n" {
				t.Errorf("/readyz answers %d %s", code, text)
			}
			return
		}
		client.CloseIdleConnections()
		<-tick.C
	}
	t.Errorf("the new certificate is not in use\n%s", l.log)
}

func TestRequestsInFlightFinishWhenTheServerStops(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	l := newLocal(t, webhook.Options{ShutdownDelay: 300 * time.Millisecond}, func(_ context.Context, request webhook.Request[*Hero]) error {
		if request.New.Spec.Horse == "slow" {
			close(entered)
			<-leave
		}
		return nil
	})
	held, err := webhook.Certificate(l.Server, nil)
	must(t, err)
	roots := x509.NewCertPool()
	content, err := os.ReadFile(filepath.Join(l.folder, "ca.crt"))
	must(t, err)
	roots.AppendCertsFromPEM(content)
	if _, err := held.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	slow, other := l.client(t, map[string][]byte{"ca.crt": content}), l.client(t, map[string][]byte{"ca.crt": content})
	requests := lifecycle.New(context.Background())
	requests.Go("slow", func(context.Context) error {
		code, text, err := l.send(slow, validatePath, review(admissionv1.Create, heroJSON("", `"horse":"slow"`), ""))
		if err == nil && (code != http.StatusOK || !strings.Contains(text, `"allowed":true`)) {
			err = errors.New(text)
		}
		return err
	})
	<-entered
	requests.Go("stop", func(context.Context) error { l.stop(); return nil })
	for l.Ready() == nil {
		if requests.Context().Err() != nil {
			break
		}
		<-time.After(time.Millisecond)
	}
	// It is not ready any more, and still accepts requests: API servers learn late that it goes.
	if code, _, err := l.send(other, "/readyz", ""); err != nil || code != http.StatusServiceUnavailable {
		t.Errorf("while it stops, /readyz answers %d, %v", code, err)
	}
	if code, _, err := l.send(other, validatePath, review(admissionv1.Create, heroJSON("", `"horse":"fast"`), "")); err != nil || code != http.StatusOK {
		t.Errorf("a new request while it stops gets %d, %v", code, err)
	}
	other.CloseIdleConnections()
	for { // Then it accepts none.
		var dialer net.Dialer
		connection, err := dialer.DialContext(t.Context(), "tcp", "127.0.0.1:"+l.port)
		if err != nil {
			break
		}
		must(t, connection.Close())
		<-time.After(5 * time.Millisecond)
	}
	close(leave)
	if err := requests.Wait(); err != nil {
		t.Errorf("the request in flight: %v", err)
	}
}

func TestConnectionsEndWithAnAnswerWhileTheServerStops(t *testing.T) {
	l := newLocal(t, webhook.Options{ShutdownDelay: 5 * time.Second}, func(context.Context, webhook.Request[*Hero]) error { return nil })
	content, err := os.ReadFile(filepath.Join(l.folder, "ca.crt"))
	must(t, err)
	client := l.client(t, map[string][]byte{"ca.crt": content})
	client.Transport.(*http.Transport).ForceAttemptHTTP2 = false // API servers call webhooks by HTTP/1.1.
	dials := 0
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	send := func() (int, error) {
		code, _, err := l.send(client, validatePath, review(admissionv1.Create, heroJSON("", ""), ""))
		return code, err
	}
	for range 3 {
		if code, err := send(); code != http.StatusOK || err != nil || dials != 1 {
			t.Fatalf("the server answers %d, %v, after %d dials, want one", code, err, dials)
		}
	}
	stopping := lifecycle.New(context.Background())
	stopping.Go("stop", func(context.Context) error { l.stop(); return nil })
	for l.Ready() == nil {
		<-time.After(time.Millisecond)
	}
	dials = 0
	for range 20 {
		if code, err := send(); code != http.StatusOK || err != nil {
			t.Fatalf("while the server stops, a request gets %d, %v", code, err)
		}
	}
	if dials != 19 {
		t.Errorf("while the server stopped, 20 requests took %d new connections, want one each, apart from the first", dials)
	}
	must(t, stopping.Wait())
}

func TestAFunctionThatOutlastsTheGraceEndsWithItsContext(t *testing.T) {
	entered, ended := make(chan struct{}), make(chan error, 1)
	l := newLocal(t, webhook.Options{Grace: 50 * time.Millisecond}, func(ctx context.Context, _ webhook.Request[*Hero]) error {
		close(entered)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	content, err := os.ReadFile(filepath.Join(l.folder, "ca.crt"))
	must(t, err)
	client := l.client(t, map[string][]byte{"ca.crt": content})
	requests := lifecycle.New(context.Background())
	requests.Go("slow", func(context.Context) error {
		_, _, _ = l.send(client, validatePath, review(admissionv1.Create, heroJSON("", ""), "")) // Its answer may be lost.
		return nil
	})
	<-entered
	l.stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the context ended with %v", err)
	}
	must(t, requests.Wait())
}
