package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// fake is an API server in virtual time that supports the applies of the webhook server.
type fake struct {
	*sourcestest.Server
	apply chan struct{}                               // holds a token during an apply; a goroutine that waits for a mutex would stop virtual time
	wrote atomic.Pointer[func(request *http.Request)] // called after each write

	instead func(request *http.Request) *http.Response // answers before the others, if it is not nil and returns an answer
}

// RoundTrip serves a request. An apply replaces the top-level fields that it names.
func (f *fake) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := f.serve(request)
	if wrote := f.wrote.Load(); request.Method != http.MethodGet && err == nil && wrote != nil {
		(*wrote)(request)
	}
	return answer, err
}

func (f *fake) serve(request *http.Request) (*http.Response, error) {
	if f.instead != nil {
		if answer := f.instead(request); answer != nil || request.Context().Err() != nil {
			return answer, request.Context().Err()
		}
	}
	if request.Method != http.MethodPatch {
		return f.Server.RoundTrip(request)
	}
	select {
	case f.apply <- struct{}{}:
		defer func() { <-f.apply }()
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	send := func(method, at string, content []byte) (*http.Response, error) {
		made, err := http.NewRequestWithContext(request.Context(), method, "http://sourcestest"+at, bytes.NewReader(content))
		if err != nil {
			return nil, err
		}
		made.Header.Set("Content-Type", "application/json")
		return f.Server.RoundTrip(made)
	}
	before, err := send(http.MethodGet, request.URL.Path, nil)
	if err != nil {
		return nil, err
	}
	if before.StatusCode == http.StatusNotFound {
		return send(http.MethodPost, path.Dir(request.URL.Path), body)
	}
	if before.StatusCode != http.StatusOK {
		return before, nil
	}
	var live, fields map[string]any
	if err := errors.Join(json.NewDecoder(before.Body).Decode(&live), json.Unmarshal(body, &fields)); err != nil {
		return nil, err
	}
	for name, value := range fields {
		if name != "metadata" {
			live[name] = value
		}
	}
	live["metadata"].(map[string]any)["resourceVersion"] = fields["metadata"].(map[string]any)["resourceVersion"]
	content, err := json.Marshal(live)
	if err != nil {
		return nil, err
	}
	return send(http.MethodPut, request.URL.Path, content)
}

// rig runs replicas of a server on a fake API server, and checks that each API server trusts each replica.
type rig struct {
	*testing.T
	api          *fake
	log          *journal
	certificates webhook.Certificates
	registry     *prometheus.Registry // of the next replica; nil for one of its own
	replicas     []*replica
	changing     sync.Mutex // guards replicas, which writes of a replica may read
	views        []view     // the bundles that API servers may have, the newest last
	verified     map[string]error
	serials      map[string]bool
}

type replica struct {
	*webhook.Server
	group *lifecycle.Group
}

type view struct {
	bundle string
	until  time.Time // when no API server has it any more; zero for the newest
}

const (
	host        = "webhooks.heroes.svc"
	lag         = 10 * time.Second // of the slowest API server
	propagation = 15 * time.Second
)

func newRig(t *testing.T, options sourcestest.Options, certificates webhook.Certificates) *rig {
	options.Scheme = scheme.Scheme
	server, err := sourcestest.New(options)
	must(t, err)
	return &rig{T: t, api: &fake{Server: server, apply: make(chan struct{}, 1)}, log: &journal{}, certificates: certificates, verified: map[string]error{}, serials: map[string]bool{}}
}

// launch starts a replica.
func (r *rig) launch(options ...webhook.Option) *replica {
	r.Helper()
	server, err := webhook.New(&rest.Config{Host: "http://sourcestest", Transport: r.api}, scheme.Scheme, webhook.Options{
		Service: "heroes/webhooks", Certificates: r.certificates, Logger: r.log.logger(), Registry: r.registry,
	})
	must(r, err)
	must(r, webhook.Validate(server, func(context.Context, webhook.Request[*corev1.ConfigMap]) error { return nil }, options...))
	return r.keep(server)
}

// keep starts a server without its listener.
func (r *rig) keep(server *webhook.Server) *replica {
	r.Helper()
	server.SetTimings(propagation, 5*time.Minute, time.Hour)
	made := &replica{server, lifecycle.New(context.Background())}
	r.changing.Lock()
	r.replicas = append(r.replicas, made)
	r.changing.Unlock()
	made.group.Go("keep", server.Keep)
	return made
}

// forbidden answers that a request is not allowed.
func forbidden(request *http.Request) *http.Response {
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)),
	}
}

// kill ends a replica at once, also between two of its writes.
func (r *rig) kill(which int) {
	r.Helper()
	r.replicas[which].group.Stop()
	must(r, r.replicas[which].group.Wait())
	r.changing.Lock()
	defer r.changing.Unlock()
	r.replicas = append(r.replicas[:which], r.replicas[which+1:]...)
}

func (r *rig) end() {
	for len(r.replicas) > 0 {
		r.kill(0)
	}
}

// observe takes the bundle that is in force, and checks all replicas that are ready.
func (r *rig) observe() {
	r.Helper()
	now := time.Now()
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "webhooks.heroes"}}
	if err := r.api.Get(configuration); apierrors.IsNotFound(err) {
		return
	} else if err != nil {
		r.Fatal(err)
	}
	bundle := string(configuration.Webhooks[0].ClientConfig.CABundle)
	if last := len(r.views) - 1; last < 0 || r.views[last].bundle != bundle {
		if last >= 0 {
			r.views[last].until = now.Add(lag)
		}
		r.views = append(r.views, view{bundle: bundle})
	}
	for len(r.views) > 1 && now.After(r.views[0].until) {
		r.views = r.views[1:]
	}
	for i, replica := range r.replicas {
		if replica.Ready() != nil {
			continue // It gets no requests.
		}
		held, err := webhook.Certificate(replica.Server, nil)
		must(r, err)
		r.serials[held.Leaf.SerialNumber.String()] = true
		for _, view := range r.views {
			if err := r.trusts(view.bundle, held, now); err != nil {
				r.Fatalf("an API server does not trust replica %d: %v\n%s", i, err, r.log)
			}
		}
	}
}

func (r *rig) trusts(bundle string, held *tls.Certificate, now time.Time) error {
	if !now.Before(held.Leaf.NotAfter) {
		return errors.New("the certificate has expired")
	}
	key := held.Leaf.SerialNumber.String() + bundle
	if err, known := r.verified[key]; known {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle))
	_, err := held.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now})
	r.verified[key] = err
	return err
}

// pass lets time pass, and observes once a second.
func (r *rig) pass(duration time.Duration) {
	r.Helper()
	for end := time.Now().Add(duration); time.Now().Before(end); {
		<-time.After(time.Second)
		synctest.Wait()
		r.observe()
	}
}

func (r *rig) secret() *corev1.Secret {
	r.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "heroes", Name: "webhooks-certificates"}}
	must(r, r.api.Get(secret))
	return secret
}

// present returns what a replica presents, and whether it is what the Secret holds.
func (r *rig) present(which int) (certificate *x509.Certificate, stored bool) {
	r.Helper()
	held, err := webhook.Certificate(r.replicas[which].Server, nil)
	must(r, err)
	entries := r.secret().Data
	pair, err := tls.X509KeyPair(entries["tls.crt"], entries["tls.key"])
	return held.Leaf, err == nil && pair.Leaf.Equal(held.Leaf)
}
