package sourcestest_test

import (
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// dependent returns a config map that names another object as its owner.
func dependent(name string, owner *corev1.ConfigMap) *corev1.ConfigMap {
	made := configMap(name)
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	return made
}

// generations creates config maps, each the owner of the next, and returns the first one.
func generations(t *testing.T, server *sourcestest.Server, number int) *corev1.ConfigMap {
	t.Helper()
	first := configMap("0")
	must(t, server.Create(first))
	for i, owner := 1, first; i < number; i++ {
		made := dependent(fmt.Sprint(i), owner)
		must(t, server.Create(made))
		owner = made
	}
	return first
}

func TestEachGenerationOfDependentsGoesAfterItsTime(t *testing.T) {
	for _, watched := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server := newServer(t, sourcestest.Options{GarbageCollection: time.Second})
			first := generations(t, server, 3)
			pass(t, time.Minute)
			var seen *observation
			if watched {
				seen = observe(t, server)
				seen.emitted(t, time.Millisecond)
			}
			must(t, server.Delete(first))
			for _, want := range []struct {
				after time.Duration
				left  int
				line  string
			}{{999 * time.Millisecond, 2, "Deleted 0"}, {time.Millisecond, 1, "Deleted 1"}, {time.Second, 0, "Deleted 2"}} {
				if watched { // Nothing but the watch looks at the server.
					same(t, "emitted", seen.emitted(t, want.after), want.line)
					continue
				}
				pass(t, want.after)
				if left := stored(t, server); len(left) != want.left {
					t.Errorf("there are still %v, want %d", left, want.left)
				}
			}
			if watched {
				seen.stop(t)
			}
		})
	}
}

// If no client looks at the server for a time, it catches up with what is due.
func TestGarbageIsGoneHoweverLateTheServerIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{GarbageCollection: time.Second})
		must(t, server.Delete(generations(t, server, 5)))
		pass(t, 2500*time.Millisecond)
		if left := stored(t, server); len(left) != 2 {
			t.Errorf("there are still %v, want the last two generations", left)
		}
		pass(t, time.Hour)
		failsWith(t, "reading the last one", server.Get(configMap("4")), metav1.StatusReasonNotFound)
	})
}

func TestTheCollectorIsDeterministic(t *testing.T) {
	run := func() (lines []string, version string) {
		synctest.Test(t, func(t *testing.T) {
			server := newServer(t, sourcestest.Options{GarbageCollection: time.Second})
			seen := observe(t, server)
			owner := configMap("owner")
			must(t, server.Create(owner))
			for i := range 50 {
				must(t, server.Create(dependent(fmt.Sprint(i), owner)))
			}
			must(t, server.Delete(owner))
			pass(t, time.Minute)
			var list corev1.ConfigMapList
			must(t, server.List(&list))
			lines, version = seen.lines, list.ResourceVersion
			seen.stop(t)
		})
		return lines, version
	}
	lines, version := run()
	again, versionAgain := run()
	if !reflect.DeepEqual(lines, again) || version != versionAgain || len(lines) < 102 {
		t.Errorf("the collector causes %q at version %s, and then %q at version %s", lines, version, again, versionAgain)
	}
}

func TestWithoutTheOptionDependentsStayAndOwnersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{})
		owner := generations(t, server, 2)
		foreground := metav1.DeletePropagationForeground
		must(t, api(t, server).Resource(configMaps).Namespace("a").Delete(t.Context(), owner.Name, metav1.DeleteOptions{PropagationPolicy: &foreground}))
		pass(t, time.Hour)
		must(t, server.Get(owner))
		same(t, "the finalizers", owner.Finalizers, metav1.FinalizerDeleteDependents)
		must(t, server.Get(configMap("1")))
	})
}

// The collector of Kubernetes cannot look such owners up, and leaves their dependents alone.
func TestDependentsOfOwnersThatCannotBeLookedUpStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{GarbageCollection: time.Second})
		unknown, uninstalled := configMap("unknown"), configMap("uninstalled")
		unknown.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "Hero", Name: "x", UID: "x"}}
		uninstalled.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "x", UID: "x"}}
		clusterRole := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"},
		}}}
		must(t, server.Uninstall(&corev1.Secret{}))
		must(t, server.Create(unknown))
		must(t, server.Create(uninstalled))
		must(t, server.Create(clusterRole))
		pass(t, time.Hour)
		must(t, server.Get(unknown))
		must(t, server.Get(uninstalled))
		must(t, server.Get(clusterRole))
		must(t, server.Install(&corev1.Secret{}))
		must(t, server.Update(unknown)) // It changes nothing.
		must(t, server.Create(configMap("y")))
		must(t, server.Delete(configMap("y")))
		pass(t, time.Hour)
		failsWith(t, "reading it when the kind is back", server.Get(uninstalled), metav1.StatusReasonNotFound)
	})
}

func TestAnOwnerWithoutANamespaceOwnsObjectsWithOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{GarbageCollection: time.Second})
		owner := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
		must(t, server.Create(owner))
		references := []metav1.OwnerReference{{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: "x", UID: owner.UID}}
		inside, outside := configMap("x"), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "x", OwnerReferences: references}}
		inside.OwnerReferences = references
		must(t, server.Create(inside))
		must(t, server.Create(outside))
		pass(t, time.Hour)
		must(t, server.Get(inside))
		must(t, server.Get(outside))
		must(t, server.Delete(owner))
		pass(t, time.Hour)
		failsWith(t, "reading the one in a namespace", server.Get(inside), metav1.StatusReasonNotFound)
		failsWith(t, "reading the other", server.Get(outside), metav1.StatusReasonNotFound)
	})
}

func TestARestoreMayBringGarbageBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{GarbageCollection: time.Second})
		must(t, server.Delete(generations(t, server, 2)))
		taken := server.Snapshot() // The dependent is not gone yet.
		pass(t, time.Hour)
		server.Restore(taken)
		must(t, server.Get(configMap("1")))
		pass(t, time.Hour)
		failsWith(t, "reading the dependent", server.Get(configMap("1")), metav1.StatusReasonNotFound)
	})
}

func TestTheDeletionOfACollectionIsOneRequest(t *testing.T) {
	server := newServer(t, sourcestest.Options{Script: []sourcestest.Fault{{Action: sourcestest.Refuse, Verb: "deletecollection"}}})
	must(t, server.Create(configMap("x")))
	must(t, server.Create(configMap("y")))
	client := api(t, server).Resource(configMaps).Namespace("a")
	remove := func() error {
		return client.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	}
	failsWith(t, "deleting it at the fault", remove(), metav1.StatusReasonServiceUnavailable)
	must(t, remove())
	if left := stored(t, server); len(left) > 0 || server.Counts().Requests["deletecollection configmaps"] != 2 {
		t.Errorf("there are still %v, after %v", left, server.Counts())
	}
}
