package compat_test

import (
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/compat"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestWatchedKindsAreReadFromTheCacheAndOthersLive(t *testing.T) {
	d := newDesk(t, controller.Owns(&rbacv1.ClusterRole{}, controller.ClusterScoped()))
	ctx := t.Context()
	d.must(d.three(ctx, d.ours))
	d.read()
	held, list := &corev1.ConfigMap{}, &corev1.ConfigMapList{}
	for want, do := range map[string]func() error{
		"":           func() error { return d.ours.Get(ctx, d.name("a"), held) },
		"secrets":    func() error { return d.ours.List(ctx, &corev1.SecretList{}, client.InNamespace(d.namespace)) },
		"configmaps": func() error { return d.ours.List(ctx, list, client.InNamespace(d.namespace), client.Limit(1)) },
		"none":       func() error { return client.IgnoreNotFound(d.ours.Get(ctx, d.name("none"), &corev1.Secret{})) },
		"kube-root-ca.crt": func() error {
			metadata := d.as(&metav1.PartialObjectMetadata{}, "")
			return d.ours.Get(ctx, d.name("kube-root-ca.crt"), metadata)
		},
	} {
		d.must(do())
		if read := d.read(); read != want {
			t.Errorf("it reads %q from the API server, want %q", read, want)
		}
	}
	for want, options := range map[string][]client.ListOption{
		"a c":   {client.MatchingFields{"data.color": "red"}},
		"c":     {client.MatchingFields{"data.color": "red"}, client.MatchingLabels{"app": "db"}},
		"a":     {client.MatchingFields{"data.color": "red"}, client.Limit(1)},
		"b":     {client.MatchingLabels{"app": "web"}, client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("metadata.name", "a")}},
		"a b c": {client.HasLabels{"app"}, client.MatchingLabelsSelector{Selector: labels.Everything()}},
		"":      {client.MatchingLabelsSelector{Selector: labels.Nothing()}},
		" ":     {client.MatchingFieldsSelector{Selector: fields.Nothing()}},
	} {
		d.must(d.ours.List(ctx, list, append(options, client.InNamespace(d.namespace))...))
		if got := names(list); got != strings.TrimSpace(want) {
			t.Errorf("the list is %q, want %q", got, want)
		}
	}
	if read := d.read(); read != "" {
		t.Errorf("it reads %q from the API server, want nothing", read)
	}
	if err := d.ours.List(ctx, list, client.MatchingFields{"data.size": "1"}); err == nil || !strings.Contains(err.Error(), "data.size") {
		t.Errorf("a list by a field without an index returns %v", err)
	}
	if err := d.ours.Get(ctx, d.name("view"), &rbacv1.ClusterRole{}); err != nil {
		t.Errorf("Get of a cluster-scoped object by a name with a namespace returns %v", err)
	}
	d.must(d.ours.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(d.namespace), client.MatchingLabelsSelector{Selector: labels.Nothing()}))
	d.must(d.ours.List(ctx, list, client.InNamespace(d.namespace), client.HasLabels{"app"}))
	if got := names(list); got != "a b c" {
		t.Errorf("the deletion of nothing leaves %q", got)
	}
}

// TestOtherNamespacesAreReadLive reads past the namespaces of a manager.
func TestOtherNamespacesAreReadLive(t *testing.T) {
	d := newDesk(t)
	manager, err := controller.NewManager(clustertest.Shared(t).AdminConfig(), scheme.Scheme, controller.Options{
		Namespaces: []string{"default"}, Logger: slog.New(slog.DiscardHandler),
	})
	d.must(err)
	d.must(manager.Add("configs", idle, controller.For(&corev1.ConfigMap{})))
	d.run(manager)
	c, err := compat.Client(manager.Client())
	d.must(err)
	d.must(d.three(t.Context(), d.theirs))
	list := &corev1.ConfigMapList{}
	d.must(c.List(t.Context(), list, client.InNamespace(d.namespace), client.HasLabels{"app"}))
	if err := c.Get(t.Context(), d.name("a"), &corev1.ConfigMap{}); err != nil || names(list) != "a b c" {
		t.Errorf("the list is %q, and Get returns %v", names(list), err)
	}
}

func TestEventsAreRecordedByTheManager(t *testing.T) {
	d := newDesk(t)
	made := d.config("x", "red")
	d.must(d.ours.Create(t.Context(), made))
	old, current := compat.EventRecorder(d.manager.Recorder()), compat.NewEventRecorder(d.manager.Recorder())
	old.Event(made, corev1.EventTypeNormal, "Plain", "hello")
	old.AnnotatedEventf(made, map[string]string{"b": "2", "a": "1"}, corev1.EventTypeWarning, "Annotated", "hello %d", 2)
	current.Eventf(made, made, corev1.EventTypeNormal, "New", "Greet", "hello %d", 3)
	old.Event(made, "Other", "Never", "hello")
	want := []string{"Warning Annotated Annotated hello 2 (a=1, b=2)", "Normal Greet New hello 3 (related: ConfigMap " + d.namespace + "/x)", "Normal Plain Plain hello"}
	slices.Sort(want)
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(10 * time.Millisecond) {
		list := &eventsv1.EventList{}
		d.must(d.theirs.List(t.Context(), list, client.InNamespace(d.namespace)))
		var got []string
		for i := range list.Items {
			of := &list.Items[i]
			got = append(got, of.Type+" "+of.Action+" "+of.Reason+" "+of.Note)
		}
		if slices.Sort(got); slices.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the Events are %q, want %q", got, want)
		}
	}
}

func TestWhatIsReadBelongsToTheCaller(t *testing.T) {
	d := newDesk(t)
	ctx := t.Context()
	d.must(d.three(ctx, d.ours))
	first, second, list := &corev1.ConfigMap{}, &corev1.ConfigMap{}, &corev1.ConfigMapList{}
	d.must(d.ours.Get(ctx, d.name("a"), first))
	first.Data["color"] = "changed"
	d.must(d.ours.List(ctx, list, client.InNamespace(d.namespace), client.HasLabels{"app"}))
	for i := range list.Items {
		list.Items[i].Labels["app"] = "changed"
	}
	d.must(d.ours.Get(ctx, d.name("a"), second))
	if second.Data["color"] != "red" || second.Labels["app"] != "web" || second.Kind != "ConfigMap" {
		t.Errorf("the cache has %v", second)
	}
	// From then on, no event replaces an own write.
	d.must(d.manager.Cache().Wait(ctx, cache.OwnWritesVisible))
	d.must(d.ours.List(ctx, list, client.InNamespace(d.namespace), client.UnsafeDisableDeepCopy, client.MatchingLabels{"app": "db"}))
	d.must(d.ours.Get(ctx, d.name("c"), first, &client.GetOptions{UnsafeDisableDeepCopy: new(true)}))
	// They are compared by address: a change would race with the cache, which reads what it indexes.
	if reflect.ValueOf(first.Data).Pointer() != reflect.ValueOf(list.Items[0].Data).Pointer() {
		t.Error("UnsafeDisableDeepCopy copies")
	}
}

// TestTheNextReadSeesAWrite reads after each write, often before the watch has reported it.
func TestTheNextReadSeesAWrite(t *testing.T) {
	d := newDesk(t)
	ctx, held := t.Context(), &corev1.ConfigMap{}
	see := func(after, want string) {
		t.Helper()
		if err := d.ours.Get(ctx, d.name("x"), held); err != nil || held.Data["color"] != want {
			t.Errorf("after %s the color is %q, want %q: %v", after, held.Data["color"], want, err)
		}
	}
	for range 10 {
		made := d.config("x", "red")
		d.must(d.ours.Create(ctx, made))
		see("Create", "red")
		made.Data["color"] = "blue"
		d.must(d.ours.Update(ctx, made))
		see("Update", "blue")
		before := made.DeepCopy()
		made.Data["color"] = "green"
		d.must(d.ours.Patch(ctx, made, client.MergeFrom(before)))
		see("Patch", "green")
		d.must(d.ours.Patch(ctx, made, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/data/color","value":"gray"}]`)), client.DryRunAll))
		see("a dry run", "green")
		d.must(d.ours.Delete(ctx, made))
		if err := d.ours.Get(ctx, d.name("x"), held); !apierrors.IsNotFound(err) {
			t.Errorf("after Delete, Get returns %v", err)
		}
	}
	if read := d.read(); read != "" {
		t.Errorf("it reads %q from the API server, want nothing", read)
	}
}
