package controller_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// truthBound is the MaxStaleness of the managers in these tests. At level Current and above, the
// cache must have every write that is older. Below 40 s, the waits between consecutive lists keep the
// watches of a busy server stale for a part of the time: see sources.WatchOptions.
const truthBound = 40 * time.Second

// truthSlack is how late the test may notice a rise, on a machine that is busy.
const truthSlack = 300 * time.Millisecond

// state holds all objects at one time, by kind.
type state struct {
	configs  map[types.NamespacedName]*corev1.ConfigMap
	secrets  map[types.NamespacedName]*corev1.Secret
	services map[types.NamespacedName]*corev1.Service
}

func newState() *state {
	return &state{
		map[types.NamespacedName]*corev1.ConfigMap{}, map[types.NamespacedName]*corev1.Secret{}, map[types.NamespacedName]*corev1.Service{},
	}
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func stampOf(object metav1.Object) string {
	return fmt.Sprintf("%s@%s", object.GetUID(), object.GetResourceVersion())
}

// versions returns the uid and version of each object, by kind and name.
func (s *state) versions() map[string]string {
	all := map[string]string{}
	for name, object := range s.configs {
		all["ConfigMap "+name.String()] = stampOf(object)
	}
	for name, object := range s.secrets {
		all["Secret "+name.String()] = stampOf(object)
	}
	for name, object := range s.services {
		all["Service "+name.String()] = stampOf(object)
	}
	return all
}

// sightOf describes what a reconcile reads: the object, its child and the services that are mapped
// to it.
func sightOf(config *corev1.ConfigMap, secret *corev1.Secret, services []*corev1.Service) string {
	var seen []string
	if config != nil {
		seen = append(seen, "ConfigMap "+stampOf(config))
	}
	if secret != nil {
		seen = append(seen, "Secret "+stampOf(secret))
	}
	for _, service := range services {
		seen = append(seen, "Service "+service.Name+" "+stampOf(service))
	}
	slices.Sort(seen)
	return strings.Join(seen, ", ")
}

func (s *state) servicesOf(name types.NamespacedName) (mapped []*corev1.Service) {
	for _, service := range s.services {
		if slices.Contains(mappedTo(service), name) {
			mapped = append(mapped, service)
		}
	}
	return mapped
}

// cached returns the objects in the cache of the manager.
func (w *truth) cached() *state {
	made := newState()
	for _, namespace := range w.namespaces {
		for _, object := range listed[*corev1.ConfigMap](w.manager.Client(), controller.InNamespace(namespace)) {
			made.configs[nameOf(object)] = object
		}
		for _, object := range listed[*corev1.Secret](w.manager.Client(), controller.InNamespace(namespace)) {
			made.secrets[nameOf(object)] = object
		}
		for _, object := range listed[*corev1.Service](w.manager.Client(), controller.InNamespace(namespace)) {
			made.services[nameOf(object)] = object
		}
	}
	return made
}

// live returns the objects of the API server, read past the proxy.
func (w *truth) live() *state {
	made, all := newState(), metav1.ListOptions{}
	for _, namespace := range w.namespaces {
		configs, err := w.past.CoreV1().ConfigMaps(namespace).List(w.t.Context(), all)
		w.must(err)
		for i := range configs.Items {
			made.configs[nameOf(&configs.Items[i])] = &configs.Items[i]
		}
		secrets, err := w.past.CoreV1().Secrets(namespace).List(w.t.Context(), all)
		w.must(err)
		for i := range secrets.Items {
			made.secrets[nameOf(&secrets.Items[i])] = &secrets.Items[i]
		}
		services, err := w.past.CoreV1().Services(namespace).List(w.t.Context(), all)
		w.must(err)
		for i := range services.Items {
			made.services[nameOf(&services.Items[i])] = &services.Items[i]
		}
	}
	return made
}

// check compares the claim of a level of Settled and above, made at a time, with the server. Only the
// manager may write meanwhile. check returns the lies: the parts of the claim that are not true. exact
// reports whether the level held and the cache holds exactly what the server holds.
func (w *truth) check(claimed time.Time) (lies []string, exact bool) {
	level := w.level()
	held, sights := w.cached(), w.sights()
	// This must precede the second look at the level: a failing key may succeed while the server is read.
	unreconciled := w.unreconciled(held, sights, level)
	if again := w.level(); level < cache.Settled || again < cache.Settled {
		return nil, false // The claim has ended.
	}
	live := w.live()
	missed := w.missed(held.versions(), live.versions(), claimed)
	lies = append(lies, missed.old...)
	lies = append(lies, unreconciled...)
	if level >= cache.Converged {
		lies = append(lies, wrongChildren(held)...)
	}
	return lies, len(missed.old)+len(missed.recent) == 0
}

// difference lists the objects that differ between the cache and the server.
type difference struct{ old, recent []string }

// missed compares the versions in the cache with the versions of the server. A difference is recent
// if the object was written within the bound before the claim, and old otherwise.
func (w *truth) missed(held, live map[string]string, claimed time.Time) (found difference) {
	all := maps.Clone(held)
	maps.Copy(all, live)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if held[key] == live[key] {
			continue
		}
		line := fmt.Sprintf("%s has %q in the cache, and %q live", key, held[key], live[key])
		switch {
		case held[key] == "":
			line = fmt.Sprintf("%s is not in the cache, and %q live", key, live[key])
		case live[key] == "":
			line = fmt.Sprintf("%s has %q in the cache, and is deleted", key, held[key])
		}
		age := claimed.Sub(w.written(key))
		if age > w.bound+truthSlack {
			found.old = append(found.old, fmt.Sprintf("%s; it was written %v before the claim", line, age.Round(time.Millisecond)))
		} else {
			found.recent = append(found.recent, line)
		}
	}
	return found
}

// unreconciled returns a lie for each object whose last reconcile saw another state than the cache
// holds. At Settled, objects that have failed several times and back off do not count: the manager
// names them separately. Converged waits for them too.
func (w *truth) unreconciled(held *state, sights map[types.NamespacedName]string, level cache.Level) (lies []string) {
	for name, config := range held.configs {
		want := sightOf(config, held.secrets[name], held.servicesOf(name))
		got := sights[name]
		switch {
		case got == want:
		case level < cache.Converged && w.failing(name):
			w.tally.failing++
		default:
			lies = append(lies, fmt.Sprintf("ConfigMap %s was not reconciled in this state: its last reconcile saw %q, the cache holds %q", name, got, want))
		}
	}
	slices.Sort(lies)
	return lies
}

// wrongChildren returns a lie for each ConfigMap whose Secret is missing or differs from the wanted one.
func wrongChildren(held *state) (lies []string) {
	for name, config := range held.configs {
		secret := held.secrets[name]
		switch {
		case secret == nil:
			lies = append(lies, fmt.Sprintf("ConfigMap %s has no Secret", name))
		case string(secret.Data["value"]) != contentOf(config, len(held.servicesOf(name))) || !metav1.IsControlledBy(secret, config):
			lies = append(lies, fmt.Sprintf("ConfigMap %s has a Secret of %q for owner %v", name, secret.Data["value"], secret.OwnerReferences))
		}
	}
	slices.Sort(lies)
	return lies
}

// wantLie fails the test unless one of the lies names the object and contains what.
func wantLie(t *testing.T, lies []string, object, what string) {
	t.Helper()
	if !slices.ContainsFunc(lies, func(lie string) bool { return strings.Contains(lie, object) && strings.Contains(lie, what) }) {
		t.Errorf("the lies are %q, want one that names %s and contains %q", lies, object, what)
	}
}
