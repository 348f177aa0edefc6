package compat_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/compat"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/replaytest"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// copied returns the Secret of a ConfigMap.
func copied(of *corev1.ConfigMap) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: of.Name, Labels: map[string]string{"horse": of.Data["horse"]},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
		},
		Data: map[string][]byte{"horse": []byte(of.Data["horse"])},
	}
}

// ported copies ConfigMaps into Secrets, as a reconciler of controller-runtime.
type ported struct {
	client.Client
	suffix   string // of the label; a version that differs has one
	unlocked bool   // its patches have no condition on the version
}

func (p *ported) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	config := &corev1.ConfigMap{}
	if err := p.Get(ctx, request.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	wanted := copied(config)
	wanted.Labels["horse"] += p.suffix
	secret := &corev1.Secret{}
	switch err := p.Get(ctx, request.NamespacedName, secret); {
	case apierrors.IsNotFound(err):
		return ctrl.Result{RequeueAfter: time.Hour}, p.Create(ctx, wanted)
	case err != nil:
		return ctrl.Result{}, err
	case secret.Labels["horse"] == wanted.Labels["horse"]:
		return ctrl.Result{RequeueAfter: time.Hour}, nil
	}
	before := secret.DeepCopy()
	secret.Labels, secret.Data = wanted.Labels, wanted.Data
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if p.unlocked {
		patch = client.MergeFrom(before)
	}
	return ctrl.Result{RequeueAfter: time.Hour}, p.Patch(ctx, secret, patch)
}

// portedSetup sets up a manager with a reconciler of controller-runtime.
func portedSetup(version ported) controller.Setup {
	return func(config *rest.Config, options controller.Options) (*controller.Manager, error) {
		manager, err := controller.NewManager(config, scheme.Scheme, options)
		if err != nil {
			return nil, err
		}
		old := version
		if old.Client, err = compat.Client(manager.Client()); err != nil {
			return nil, err
		}
		return manager, manager.Add("copies", compat.Reconciler(&old), controller.For(&corev1.ConfigMap{}), controller.Owns(&corev1.Secret{}))
	}
}

// nativeSetup sets up a manager with a reconciler of Bellerophon that decides the same.
func nativeSetup(config *rest.Config, options controller.Options) (*controller.Manager, error) {
	manager, err := controller.NewManager(config, scheme.Scheme, options)
	if err != nil {
		return nil, err
	}
	c := manager.Client()
	return manager, manager.Add("copies", func(ctx context.Context, request operators.Request) (time.Duration, error) {
		config, err := controller.Get[*corev1.ConfigMap](ctx, c, request.NamespacedName)
		if err != nil {
			return 0, controller.IgnoreNotFound(err)
		}
		wanted := copied(config)
		secret, err := controller.Get[*corev1.Secret](ctx, c, request.NamespacedName)
		switch {
		case apierrors.IsNotFound(err):
			_, err = controller.Create(ctx, c, wanted)
			return time.Hour, err
		case err != nil:
			return 0, err
		case secret.Labels["horse"] == wanted.Labels["horse"]:
			return time.Hour, nil
		}
		changed := secret.DeepCopy()
		changed.Labels, changed.Data = wanted.Labels, wanted.Data
		_, err = controller.Patch(ctx, c, changed, controller.MergeFrom(secret))
		return time.Hour, err
	}, controller.For(&corev1.ConfigMap{}), controller.Owns(&corev1.Secret{}))
}

// recorded runs a manager among some changes, and returns the recording.
func recorded(t *testing.T, setup controller.Setup) *recording.Recording {
	t.Helper()
	dir := t.TempDir()
	recordInto(t, dir, func(config *rest.Config, options controller.Options) (func(context.Context) error, error) {
		manager, err := setup(config, options)
		if err != nil {
			return nil, err
		}
		return manager.Run, nil
	})
	return opened(t, dir)
}

// opened opens a recording.
func opened(t *testing.T, dir string) *recording.Recording {
	t.Helper()
	of, err := recording.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return of
}

// recordInto runs a manager among some changes, and records it into a folder.
func recordInto(t *testing.T, dir string, setup func(*rest.Config, controller.Options) (run func(context.Context) error, err error)) {
	t.Helper()
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	run, err := setup(server.Config(), controller.Options{Logger: slog.New(slog.DiscardHandler), Recording: &recording.Options{Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("manager", run)
	for i := range 60 {
		hero := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("hero-%d", i%6)}}
		if server.Get(hero) != nil {
			hero.Data = map[string]string{"horse": "pegasus"}
			err = server.Create(hero)
		} else {
			hero.Data = map[string]string{"horse": fmt.Sprintf("horse-%d", i)}
			err = server.Update(hero)
		}
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Millisecond)
	}
	<-time.After(300 * time.Millisecond)
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestAPortedReconcilerDecidesInAReplayAsTheOneItReplaces(t *testing.T) {
	of := recorded(t, nativeSetup)
	equal(t, of, portedSetup(ported{}))
	for _, seeded := range []struct {
		version ported
		field   string
	}{
		{ported{suffix: "!"}, "metadata.labels.horse"},
		{ported{unlocked: true}, "metadata.resourceVersion"}, // This is what controller-runtime's MergeFrom does by default.
	} {
		replayed := replaytest.Replay(t, of, portedSetup(seeded.version))
		found := 0
		for _, difference := range replayed.Differences {
			for _, line := range difference.Lines {
				if strings.Contains(line, seeded.field) {
					found++
				}
			}
		}
		if found < 50 {
			t.Errorf("%d lines about %s in %d differences", found, seeded.field, len(replayed.Differences))
		}
	}
}

func TestTheAttemptsOfAPortedReconcilerAreRecordedAndReplayed(t *testing.T) {
	of := recorded(t, portedSetup(ported{}))
	equal(t, of, portedSetup(ported{}))
	equal(t, of, nativeSetup)
}

// equal fails the test unless a version decides as in the recording.
func equal(t *testing.T, of *recording.Recording, setup controller.Setup) {
	t.Helper()
	replayed := replaytest.Replay(t, of, setup)
	if replayed.Attempts < 50 {
		t.Errorf("%d attempts were replayed, want at least 50", replayed.Attempts)
	}
	if different := replayed.Differences; len(different) > 0 {
		t.Errorf("%d of %d attempts differ, the first one so: %v", len(different), replayed.Attempts, different[0])
	}
}

// aggregated is the answer of an API server about its group of Pegasi, in the form that has all groups at once.
const aggregated = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":"myth.example"},
"versions":[{"version":"v1","resources":[{"resource":"pegasi","responseKind":{"group":"myth.example","version":"v1","kind":"Pegasus"},
"scope":"Cluster","singularResource":"pegasus","verbs":["get"]}]}]}]}`

// A REST mapper that does not know a kind asks for the version of its group, and forgets the group if the answer is
// 404. Two sources that start at the same time make it do what the question about an unknown kind does here.
func TestAReplayKnowsTheVersionsOfAGroupFromTheAnswerAboutAllGroups(t *testing.T) {
	const allGroups = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	of := &recording.Recording{Records: []*recording.Record{
		{At: 1, Served: &recording.Served{Path: "/api", Type: allGroups, Answer: []byte(`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2"}`)}},
		{At: 2, Served: &recording.Served{Path: "/apis", Type: allGroups, Answer: []byte(aggregated)}},
	}}
	replaytest.Replay(t, of, compat.Setup(func(config *rest.Config, options controller.Options) (*compat.Manager, error) {
		manager, err := compat.NewManager(config, ctrl.Options{Scheme: scheme.Scheme}, options)
		if err != nil {
			return nil, err
		}
		for _, kind := range []string{"Pegasus", "Chimera", "Pegasus"} {
			mapping, err := manager.GetRESTMapper().RESTMapping(schema.GroupKind{Group: "myth.example", Kind: kind}, "v1")
			if err != nil {
				return nil, err
			}
			if want := map[string]string{"Pegasus": "pegasi", "Chimera": "chimeras"}[kind]; mapping.Resource.Resource != want {
				t.Errorf("the plural of %s is %s, want %s", kind, mapping.Resource.Resource, want)
			}
			if isRoot := mapping.Scope == meta.RESTScopeRoot; isRoot != (kind == "Pegasus") {
				t.Errorf("%s has the scope %s", kind, mapping.Scope.Name())
			}
		}
		return manager, ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Complete(&ported{Client: manager.GetClient()})
	}))
}
