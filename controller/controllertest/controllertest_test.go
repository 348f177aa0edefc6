package controllertest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/controllertest"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

var shero = schema.GroupVersionKind{Group: "stable.simple-bellerophon.io", Version: "v1", Kind: "BellerophonSimple"}

func TestAControllerRunsOnARealControlPlane(t *testing.T) {
	cluster := controllertest.Start(t)
	cluster.Install(t, "../../charts/bellerophon-operator/crds")
	cluster.Install(t, "../../charts/bellerophon-operator/crds") // Again, as another test of the package may.
	namespace := cluster.Namespace(t)
	m, err := controller.NewManager(cluster.Config(), scheme.Scheme, controller.Options{Namespaces: []string{namespace}})
	if err != nil {
		t.Fatal(err)
	}
	reconciled := make(chan string, 10)
	if err := m.Add("sheroes", func(_ context.Context, request operators.Request) (time.Duration, error) {
		reconciled <- request.String()
		return 0, nil
	}, controller.For(&unstructured.Unstructured{}, controller.OfKind(shero))); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	group := lifecycle.New(ctx)
	group.Go("manager", m.Run)
	t.Cleanup(func() {
		stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	if err := m.Cache().Wait(ctx, cache.Current); err != nil {
		t.Fatal(err)
	}
	made := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(1)}}}
	made.SetGroupVersionKind(shero)
	made.SetNamespace(namespace)
	made.SetName("pegasus")
	if _, err := controller.Create(ctx, m.Client(), made); err != nil {
		t.Fatal(err)
	}
	if name := <-reconciled; name != namespace+"/pegasus" {
		t.Errorf("reconciled %s", name)
	}
}

func TestTheAssetsFitEnvtest(t *testing.T) {
	assets := controllertest.Assets(t)
	for _, program := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if info, err := os.Stat(filepath.Join(assets, program)); err != nil || info.Mode().Perm()&0o111 == 0 {
			t.Errorf("%s is not a program of %s: %v", program, assets, err)
		}
	}
}
