package webhook_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/internal/canary"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestMain turns client-go's error handlers off: see package sourcestest.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	clustertest.Main(m)
}

// heroes is the group of the kind Hero, which has two versions.
const heroes = "webhook.bellerophon.io"

// Hero is version v1 of the kind.
type Hero struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              HeroSpec `json:"spec"`
}

// HeroSpec holds the horse and the number of its riders.
type HeroSpec struct {
	Horse  string `json:"horse"`
	Riders int64  `json:"riders"`
}

// DeepCopyObject implements runtime.Object.
func (h *Hero) DeepCopyObject() runtime.Object {
	made := *h
	h.ObjectMeta.DeepCopyInto(&made.ObjectMeta)
	return &made
}

// HeroV2 is version v2 of the kind, in which the horse is an object.
type HeroV2 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              HeroV2Spec `json:"spec"`
}

// HeroV2Spec holds the mount of a hero.
type HeroV2Spec struct {
	Mount Mount `json:"mount"`
}

// Mount is a horse with the number of its riders.
type Mount struct {
	Name   string `json:"name"`
	Riders int64  `json:"riders"`
}

// DeepCopyObject implements runtime.Object.
func (h *HeroV2) DeepCopyObject() runtime.Object {
	made := *h
	h.ObjectMeta.DeepCopyInto(&made.ObjectMeta)
	return &made
}

// HeroV3 is version v3 of the kind, which only tests without an API server use.
type HeroV3 HeroV2

// DeepCopyObject implements runtime.Object.
func (h *HeroV3) DeepCopyObject() runtime.Object {
	return (*HeroV3)((*HeroV2)(h).DeepCopyObject().(*HeroV2))
}

// list is a list of a kind.
type list struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
}

// DeepCopyObject implements runtime.Object.
func (l *list) DeepCopyObject() runtime.Object { made := *l; return &made }

// types returns a scheme with Kubernetes' kinds and both versions of Hero.
func types() *runtime.Scheme {
	made := runtime.NewScheme()
	if err := scheme.AddToScheme(made); err != nil {
		panic(err)
	}
	for version, object := range map[string]runtime.Object{"v1": &Hero{}, "v2": &HeroV2{}, "v3": &HeroV3{}} {
		group := schema.GroupVersion{Group: heroes, Version: version}
		made.AddKnownTypeWithName(group.WithKind("Hero"), object)
		made.AddKnownTypeWithName(group.WithKind("HeroList"), &list{})
	}
	return made
}

// toV2 and toV1 convert heroes.
func toV2(_ context.Context, from *Hero, to *HeroV2) error {
	to.Spec.Mount = Mount{Name: from.Spec.Horse, Riders: from.Spec.Riders}
	return nil
}

func toV1(_ context.Context, from *HeroV2, to *Hero) error {
	to.Spec = HeroSpec{Horse: from.Spec.Mount.Name, Riders: from.Spec.Mount.Riders}
	return nil
}

// journal is a log that tests read.
type journal struct{ canary.Log }

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// must ends a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start runs a server until stop is called or the test ends. A failure of Run fails the test.
func start(t testing.TB, server *webhook.Server) (stop func()) {
	t.Helper()
	group := lifecycle.New(context.Background())
	group.Go("webhooks", server.Run)
	stop = sync.OnceFunc(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}
