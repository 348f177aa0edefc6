package controller_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

var (
	configKind = schema.GroupKind{Kind: "ConfigMap"}
	secretKind = schema.GroupKind{Kind: "Secret"}
	ofConfigs  = controller.For(&corev1.ConfigMap{})
	ofSecrets  = controller.For(&corev1.Secret{})
)

// park is a manager whose controllers come and go, over a fake API server.
type park struct {
	t        *testing.T
	server   *sourcestest.Server
	manager  *controller.Manager
	registry *prometheus.Registry
	group    *lifecycle.Group
	claim    *controller.Claim // on secrets

	mu         sync.Mutex
	reconciled []string // controller/object of each result since the last want
	failed     []error  // of sources and map functions
}

func newPark(t *testing.T, script ...sourcestest.Fault) *park {
	t.Helper()
	p := &park{t: t, registry: prometheus.NewRegistry()}
	var err error
	p.server, err = sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme, Script: script})
	if err != nil {
		t.Fatal(err)
	}
	p.manager, err = controller.NewManager(p.server.Config(), scheme.Scheme, controller.Options{
		Registry: p.registry,
		Logger:   slog.New(slog.DiscardHandler),
		Backoff:  operators.Backoff{First: time.Hour, Max: time.Hour},
		OnResult: func(result operators.Result) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.reconciled = append(p.reconciled, result.Controller+"/"+result.Name)
		},
		OnError: func(err error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.failed = append(p.failed, err)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *park) run() {
	p.group = lifecycle.New(p.t.Context())
	p.group.Go("manager", p.manager.Run)
}

// begin creates objects, runs the manager with one controller, and waits for Settled.
func (p *park) begin(name string, kind controller.Option, objects ...streams.Object) {
	p.t.Helper()
	p.create(objects...)
	p.add(name, kind)
	p.run()
	p.calm()
}

// beginSlow runs the manager with a controller of config maps named slow. Its reconciles block
// until goOn is called.
func (p *park) beginSlow() (goOn func()) {
	p.t.Helper()
	until := make(chan struct{})
	p.must(p.manager.Add("slow", func(context.Context, operators.Request) (time.Duration, error) {
		<-until
		return 0, nil
	}, ofConfigs))
	p.run()
	synctest.Wait()
	return func() { close(until) }
}

func (p *park) stop() {
	p.t.Helper()
	p.group.Stop()
	if err := p.group.Wait(); err != nil {
		p.t.Error(err)
	}
}

func (p *park) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// refused fails the test unless err has exactly the message want.
func (p *park) refused(err error, want string) {
	p.t.Helper()
	if err == nil || err.Error() != want {
		p.t.Errorf("the error is %v, want %s", err, want)
	}
}

func (p *park) add(name string, options ...controller.Option) {
	p.t.Helper()
	p.must(p.manager.Add(name, nothing, options...))
}

func (p *park) remove(name string) {
	p.t.Helper()
	p.must(p.manager.Remove(p.t.Context(), name))
}

func (p *park) create(objects ...streams.Object) {
	p.t.Helper()
	for _, object := range objects {
		p.must(p.server.Create(object))
	}
}

// touch changes a config map at the server.
func (p *park) touch(name string) {
	p.t.Helper()
	changed := config(name)
	changed.Data = map[string]string{"at": time.Now().String()}
	p.must(p.server.Update(changed))
}

// calm waits for Settled.
func (p *park) calm() {
	p.t.Helper()
	synctest.Wait() // A change before the call has ended the previous calm.
	p.must(p.manager.Cache().Wait(p.t.Context(), cache.Settled))
}

// want checks what was reconciled since the last call, in any order.
func (p *park) want(when string, want ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.reconciled)
	if !slices.Equal(p.reconciled, want) {
		p.t.Errorf("%s %v were reconciled, want %v", when, p.reconciled, want)
	}
	p.reconciled = nil
}

// forget drops the record of what was reconciled.
func (p *park) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reconciled = nil
}

// watches checks how many watches are open, and how many were ever requested.
func (p *park) watches(when string, open, asked int) {
	p.t.Helper()
	counts, ever := p.server.Counts(), 0
	for request, count := range counts.Requests {
		if strings.HasPrefix(request, "watch ") {
			ever += count
		}
	}
	if counts.Watches != open || ever != asked {
		p.t.Errorf("%s %d watches are open of %d, want %d of %d", when, counts.Watches, ever, open, asked)
	}
}

// mentions returns the names of the metrics with a label of the given value.
func (p *park) mentions(label string) (series []string) {
	p.t.Helper()
	families, err := p.registry.Gather()
	p.must(err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, of := range metric.GetLabel() {
				if of.GetValue() == label {
					series = append(series, family.GetName())
				}
			}
		}
	}
	return slices.Compact(series)
}

// gone fails the test if the cache or the metrics still have a kind.
func (p *park) gone(kind schema.GroupKind) {
	p.t.Helper()
	if p.manager.Cache().Store(kind) != nil {
		p.t.Errorf("%v is still in the cache", kind)
	}
	p.forgotten(kind.Kind)
}

// forgotten fails the test if a metric still has a label of the given value.
func (p *park) forgotten(label string) {
	p.t.Helper()
	if series := p.mentions(label); len(series) > 0 {
		p.t.Errorf("%s is still in %v", label, series)
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "a", Name: name} }

func config(name string) *corev1.ConfigMap { return &corev1.ConfigMap{ObjectMeta: named(name)} }

func secret(name string) *corev1.Secret { return &corev1.Secret{ObjectMeta: named(name)} }

// inPark runs test with a new park, in virtual time. The test fails if a goroutine is left at its end.
func inPark(t *testing.T, test func(p *park), script ...sourcestest.Fault) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newPark(t, script...)) })
}
