package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/examples/heroes/api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// heroes reconciles heroes. Each has a file in the stable, which is outside of the cluster, and a ConfigMap.
type heroes struct {
	client *controller.Client
	stable string // a folder
}

// reconcile brings the stall and the ConfigMap of a hero up to date. The hero exists and is not being deleted.
func (h *heroes) reconcile(ctx context.Context, hero *api.Hero) (controller.Result, error) {
	if err := os.WriteFile(h.stall(hero), []byte(hero.Spec.Horse), 0o600); err != nil {
		return controller.Result{}, h.report(ctx, hero, "NoStall", err)
	}
	wanted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: hero.Namespace, Name: hero.Name},
		Data:       map[string]string{"horse": hero.Spec.Horse},
	}
	if err := controller.SetControllerReference(h.client, hero, wanted); err != nil {
		return controller.Result{}, err
	}
	if _, err := controller.Apply[*corev1.ConfigMap](ctx, h.client, controller.ApplyConfigurationOf(wanted)); err != nil {
		return controller.Result{}, h.report(ctx, hero, "NoConfigMap", err)
	}
	return controller.Result{}, h.report(ctx, hero, "Saddled", nil)
}

// report writes the condition Ready, and returns the error that it reports. It writes only what has changed.
func (h *heroes) report(ctx context.Context, hero *api.Hero, reason string, failure error) error {
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: reason}
	if failure != nil {
		ready.Status, ready.Message = metav1.ConditionFalse, failure.Error()
	}
	after := hero.DeepCopy() // What the client returns belongs to the cache.
	if controller.SetConditions(&after.Status.Conditions, hero.Generation, ready) {
		if _, err := controller.PatchStatus(ctx, h.client, after, controller.MergeFrom(hero)); err != nil {
			return err
		}
	}
	return failure
}

// release frees the stall before a hero goes. It is the finalizer, and may be called again after it is done.
func (h *heroes) release(_ context.Context, hero *api.Hero) (time.Duration, error) {
	if err := os.Remove(h.stall(hero)); err != nil && !os.IsNotExist(err) {
		return 0, fmt.Errorf("freeing the stall: %w", err)
	}
	return 0, nil
}

func (h *heroes) stall(hero *api.Hero) string {
	return filepath.Join(h.stable, hero.Namespace+"."+hero.Name)
}
