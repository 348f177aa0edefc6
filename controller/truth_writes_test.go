package controller_test

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func configMap(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"value": value}}
}

// write makes random writes past the proxy, as other clients do.
func (w *truth) write(times int) {
	w.t.Helper()
	for range times {
		namespace, name := w.namespaces[w.random.IntN(len(w.namespaces))], "o"+strconv.Itoa(w.random.IntN(8))
		w.must(w.writeOne(namespace, name))
		if w.random.IntN(2) == 0 {
			idleFor(w.t.Context(), time.Duration(w.random.IntN(40))*time.Millisecond)
		}
	}
}

// writeOne makes one random write to a ConfigMap, to its Secret or to a Service that is mapped to it.
func (w *truth) writeOne(namespace, name string) error {
	ctx, core := w.t.Context(), w.past.CoreV1()
	value := fmt.Sprint(w.random.Uint32())
	key, err := "ConfigMap "+namespace+"/"+name, error(nil)
	switch kind := w.random.IntN(10); {
	case kind < 5:
		if _, err = core.ConfigMaps(namespace).Create(ctx, configMap(namespace, name, value), metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			_, err = core.ConfigMaps(namespace).Update(ctx, configMap(namespace, name, value), metav1.UpdateOptions{})
		}
	case kind < 6:
		err = core.ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	case kind < 7: // This is drift of the child.
		key = "Secret " + namespace + "/" + name
		drifted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"value": []byte(value)}}
		_, err = core.Secrets(namespace).Update(ctx, drifted, metav1.UpdateOptions{})
	case kind < 8:
		key = "Secret " + namespace + "/" + name
		err = core.Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	default:
		service := name + "-" + strconv.Itoa(w.random.IntN(2))
		key = "Service " + namespace + "/" + service
		_, err = core.Services(namespace).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service, Labels: map[string]string{"of": name}},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.invalid"},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = core.Services(namespace).Delete(ctx, service, metav1.DeleteOptions{})
		}
	}
	w.wrote(key)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// mustWrite creates a ConfigMap past the proxy.
func (w *truth) mustWrite(object *corev1.ConfigMap) {
	w.t.Helper()
	_, err := w.past.CoreV1().ConfigMaps(object.Namespace).Create(w.t.Context(), object, metav1.CreateOptions{})
	w.must(err)
	w.wrote("ConfigMap " + nameOf(object).String())
}

// fill creates many ConfigMaps past the proxy.
func (w *truth) fill(objects int) {
	w.t.Helper()
	const writers = 16
	group := lifecycle.New(w.t.Context())
	for writer := range writers {
		group.Go("fill", func(ctx context.Context) error {
			for i := writer; i < objects; i += writers {
				made := configMap(w.namespaces[i%len(w.namespaces)], "n"+strconv.Itoa(i), "1")
				if _, err := w.past.CoreV1().ConfigMaps(made.Namespace).Create(ctx, made, metav1.CreateOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	w.must(group.Wait())
}

// until polls until a state of the manager is reached that has no event of its own.
func (w *truth) until(what string, reached func() bool) {
	w.t.Helper()
	ticker, patience := time.NewTicker(10*time.Millisecond), time.NewTimer(w.patience)
	defer ticker.Stop()
	defer patience.Stop()
	for !reached() {
		select {
		case <-ticker.C:
		case <-patience.C:
			w.t.Fatalf("it took longer than %v until %s", w.patience, what)
		}
	}
}

// awaitCached waits until the cache has an object.
func (w *truth) awaitCached(object *corev1.ConfigMap) {
	w.t.Helper()
	w.until("the cache has "+object.Name, func() bool {
		_, found := cached[*corev1.ConfigMap](w.manager.Client(), nameOf(object))
		return found
	})
}

// awaitSeen waits until an object was reconciled.
func (w *truth) awaitSeen(object *corev1.ConfigMap) {
	w.t.Helper()
	w.until(object.Name+" was reconciled", func() bool { return w.sights()[nameOf(object)] != "" })
}

// awaitTruth waits for Settled or above, and checks the claim against the server. It checks each rise
// at once, and a level that stays when the bound has passed. It returns when the claim is exactly
// true. Only the manager writes meanwhile.
func (w *truth) awaitTruth(when, fault string) {
	w.t.Helper()
	last := time.Now()
	patience := time.NewTimer(w.patience)
	defer patience.Stop()
	standing := time.NewTicker(w.bound + 2*truthSlack)
	defer standing.Stop()
	for {
		claimed, rise := time.Time{}, false
		select {
		case claimed = <-w.rose:
			rise = claimed.After(last) // Other clients have written since an earlier one.
		case claimed = <-standing.C:
		case <-patience.C:
			w.t.Fatalf("%s (fault: %s) the level is not true after %v: it is %v, pending: %q", when, fault, w.patience,
				w.manager.Cache().Level(), w.manager.Cache().Pending(cache.Converged))
		}
		if !rise {
			claimed = time.Now()
		}
		if w.level() < cache.Settled {
			if rise {
				w.tally.fell++
			}
			continue
		}
		level := w.level()
		lies, exact := w.check(claimed)
		switch {
		case rise:
			w.tally.rises++
			if fault != noFault {
				w.tally.afterFaults++
			}
		default:
			w.tally.standing++
		}
		for _, lie := range lies {
			w.tally.lies++
			w.t.Errorf("LIE %s (seed %d, fault: %s, rise: %t, claimed: %v %v ago): %s", when, *risesSeed, fault, rise, level, time.Since(claimed), lie)
		}
		if exact {
			return
		}
	}
}
