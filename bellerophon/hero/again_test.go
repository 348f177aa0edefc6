package hero

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"k8s.io/client-go/rest"
)

// writings records the requests that write.
type writings struct {
	http.RoundTripper
	mu     sync.Mutex
	writes []string
	looked bool // at the StatefulSet, which is the last child
}

func (j *writings) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.HasSuffix(request.URL.Path, "/statefulsets/"+heroName) {
		j.mu.Lock()
		j.looked = true
		j.mu.Unlock()
	}
	if request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "/events") {
		j.mu.Lock()
		j.writes = append(j.writes, request.Method+" "+request.URL.Path)
		j.mu.Unlock()
	}
	return j.RoundTripper.RoundTrip(request)
}

func TestAnotherOperatorWritesNothingWhereAllIsAsItShouldBe(t *testing.T) {
	for name, spec := range map[string]map[string]any{
		"defaults": {"storage": map[string]any{"retention": "Delete"}},
		"many fields": {
			"replicas": int64(3), "config": map[string]any{"log-level": "debug"}, "backup": map[string]any{"volumeClaimName": "backups", "schedule": "0 3 * * *"},
			"resources":   map[string]any{"requests": map[string]any{"cpu": "0.1", "memory": "64Mi"}, "limits": map[string]any{"memory": "1024Mi"}},
			"tolerations": []any{map[string]any{"key": "dedicated", "operator": "Exists"}},
			"affinity": map[string]any{"podAntiAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": []any{map[string]any{
				"topologyKey": "kubernetes.io/hostname", "labelSelector": map[string]any{"matchLabels": map[string]any{"of": "another"}},
			}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create("bellerophon", spec)
			w.ready()
			w.stop()
			if written := w.writesOfTheNext(); len(written) > 0 {
				t.Errorf("it wrote %s", strings.Join(written, "\n"))
			}
		})
	}
}

// writesOfTheNext starts an operator, and returns what it has written when it has looked at the hero.
func (w *world) writesOfTheNext() []string {
	w.t.Helper()
	done := make(chan struct{})
	finish := sync.OnceFunc(func() { close(done) })
	config, log := rest.CopyConfig(w.config), &writings{}
	config.Impersonate = rest.ImpersonationConfig{UserName: operatorUser}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		log.RoundTripper = next
		return log
	})
	_, _, w.stop = w.operator(config, controller.Options{OnResult: func(result operators.Result) {
		log.mu.Lock()
		defer log.mu.Unlock()
		if result.Err == nil && result.Name == heroName && log.looked {
			finish()
		}
	}})
	select {
	case <-done:
	case <-w.ctx.Done():
		w.t.Fatal("no reconcile of the hero has succeeded")
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	return log.writes
}
