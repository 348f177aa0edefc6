package controller_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestAReconcileThatChangesAnObjectOfTheCacheFails(t *testing.T) {
	change := func(config *corev1.ConfigMap) { config.Data["horse"] = "chimera" }
	for name, test := range map[string]struct {
		change func(client *controller.Client, config *corev1.ConfigMap) error
		says   string
	}{
		"of its own": {
			func(_ *controller.Client, config *corev1.ConfigMap) error { change(config); return nil },
			"ConfigMap default/pegasus: data.horse (values are not shown",
		},
		"of a list": {
			func(client *controller.Client, _ *corev1.ConfigMap) error {
				change(listed[*corev1.ConfigMap](client)[0])
				return nil
			},
			"data.horse (values are not shown",
		},
		"not if it changes the answer to a write": {
			func(client *controller.Client, config *corev1.ConfigMap) error {
				if config.Data["horse"] != "pegasus" {
					return nil
				}
				after := config.DeepCopy()
				after.Data["horse"] = "bellerophon"
				written, err := controller.Patch(t.Context(), client, after, controller.MergeFrom(config))
				if err == nil {
					change(written)
				}
				return err
			},
			"",
		},
		"not if it changes a copy": {
			func(_ *controller.Client, config *corev1.ConfigMap) error { change(config.DeepCopy()); return nil }, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, err := sourcestest.New(sourcestest.Options{
					Scheme: scheme.Scheme,
					// Without a delay the event may overtake the answer, and then the answer does not enter the cache.
					Script: []sourcestest.Fault{{Action: sourcestest.Delay, Type: "MODIFIED", For: time.Second, Times: sourcestest.Always}},
				})
				if err != nil {
					t.Fatal(err)
				}
				pegasus := &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pegasus"},
					Data:       map[string]string{"horse": "pegasus"},
				}
				if err := server.Create(pegasus); err != nil {
					t.Fatal(err)
				}
				var failure error
				manager, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{
					DetectMutations: true,
					OnResult:        func(result operators.Result) { failure = errors.Join(failure, result.Err) },
				})
				if err != nil {
					t.Fatal(err)
				}
				reconcile := func(_ context.Context, request operators.Request) (time.Duration, error) {
					config, _ := cached[*corev1.ConfigMap](manager.Client(), request.NamespacedName)
					return 0, operators.Terminal(test.change(manager.Client(), config))
				}
				if err := manager.Add("configs", reconcile, controller.For(&corev1.ConfigMap{})); err != nil {
					t.Fatal(err)
				}
				group := lifecycle.New(t.Context())
				group.Go("manager", manager.Run)
				if err := manager.Cache().Wait(t.Context(), cache.Current); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				group.Stop()
				if err := group.Wait(); err != nil {
					t.Error(err)
				}
				if test.says == "" && failure != nil || test.says != "" &&
					(!errors.Is(failure, controller.ErrMutated) || !strings.Contains(failure.Error(), test.says)) {
					t.Errorf("the failure is %v, want %q in it", failure, test.says)
				}
			})
		})
	}
}
