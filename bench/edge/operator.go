package edge

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/operator"
	"github.com/bellerophon-io/bellerophon/bench/connection"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// label marks the ConfigMaps of the operator, and selector selects them.
const (
	label    = "app.kubernetes.io/managed-by"
	manager  = "edge"
	selector = label + "=" + manager
)

// desired returns the ConfigMap that an object asks for.
func desired(hero *v1.BellerophonSimple) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: hero.Namespace, Name: hero.Name, Labels: map[string]string{label: manager},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(hero, v1.GroupVersion.WithKind(v1.Kind))},
		},
		Data: map[string]string{horseKey: hero.Spec.WingedHorseName},
	}
}

// writer writes the ConfigMap of an object. seen is nil if there is none.
type writer func(ctx context.Context, seen, want *corev1.ConfigMap) error

// repair writes the ConfigMap of an object if it differs from what the object asks for. Both forms reconcile by it.
func repair(ctx context.Context, hero *v1.BellerophonSimple, seen *corev1.ConfigMap, outside time.Duration, write writer) error {
	want := desired(hero)
	if hero.DeletionTimestamp != nil || seen != nil && maps.Equal(seen.Data, want.Data) {
		return nil
	}
	if err := lifecycle.Pause(ctx, outside); err != nil {
		return err
	}
	return write(ctx, seen, want)
}

// byEvents runs the operator with watches until ctx ends.
func byEvents(ctx context.Context, config *rest.Config, cell Cell, settings Settings, options controller.Options) error {
	scheme, err := operator.Scheme()
	if err != nil {
		return err
	}
	options.Workers = cell.Workers
	made, err := controller.NewManager(config, scheme, options)
	if err != nil {
		return err
	}
	client := made.Client()
	write := func(ctx context.Context, seen, want *corev1.ConfigMap) (err error) {
		if seen == nil {
			_, err = controller.Create(ctx, client, want)
			return err
		}
		repaired := seen.DeepCopy()
		repaired.Data = want.Data
		_, err = controller.Patch(ctx, client, repaired, controller.MergeFrom(seen))
		return err
	}
	err = made.Add("edge", func(ctx context.Context, request operators.Request) (time.Duration, error) {
		hero, err := controller.Get[*v1.BellerophonSimple](ctx, client, request.NamespacedName)
		if err != nil {
			return 0, controller.IgnoreNotFound(err)
		}
		seen, err := controller.Get[*corev1.ConfigMap](ctx, client, request.NamespacedName)
		if apierrors.IsNotFound(err) {
			seen, err = nil, nil
		}
		if err != nil {
			return 0, err
		}
		return 0, repair(ctx, hero, seen, settings.Outside, write)
	}, controller.For(&v1.BellerophonSimple{}, controller.Plural(v1.Plural)), controller.Owns(&corev1.ConfigMap{}, controller.LabelSelector(selector)))
	if err != nil {
		return err
	}
	return made.Run(ctx)
}

// byPolling runs the operator without watches until ctx ends.
func byPolling(ctx context.Context, config *rest.Config, cell Cell, settings Settings) error {
	connected, err := connection.New(config)
	if err != nil {
		return err
	}
	defer connected.Close()
	ticker := time.NewTicker(cell.Interval)
	defer ticker.Stop()
	for {
		if err := pass(ctx, connected, cell.Workers, settings.Outside); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pass lists both kinds and reconciles all objects.
func pass(ctx context.Context, connected *connection.Connection, workers int, outside time.Duration) error {
	cached := metav1.ListOptions{ResourceVersion: "0"}
	heroes := &v1.BellerophonSimpleList{}
	if err := connected.Heroes().Get().Namespace(namespace).Resource(v1.Plural).VersionedParams(&cached, connected.ParameterCodec()).Do(ctx).Into(heroes); err != nil {
		return fmt.Errorf("list the objects: %w", err)
	}
	cached.LabelSelector = selector
	listed, err := connected.Core().CoreV1().ConfigMaps(namespace).List(ctx, cached)
	if err != nil {
		return fmt.Errorf("list the ConfigMaps: %w", err)
	}
	configs := map[string]*corev1.ConfigMap{}
	for i := range listed.Items {
		configs[listed.Items[i].Name] = &listed.Items[i]
	}
	group, next := lifecycle.New(ctx), make(chan *v1.BellerophonSimple)
	for range workers {
		group.Go("worker", func(ctx context.Context) error {
			for hero := range next {
				if err := repair(ctx, hero, configs[hero.Name], outside, send(connected)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go("queue", func(ctx context.Context) error {
		defer close(next)
		for i := range heroes.Items {
			select {
			case next <- &heroes.Items[i]:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// send returns a writer that sends the same requests as the library: a creation, or a merge patch of what differs.
func send(connected *connection.Connection) writer {
	return func(ctx context.Context, seen, want *corev1.ConfigMap) error {
		configs := connected.Core().CoreV1().ConfigMaps(want.Namespace)
		if seen == nil {
			_, err := configs.Create(ctx, want, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) { // The list was older; the next pass sees the ConfigMap.
				return nil
			}
			return err
		}
		patch, err := json.Marshal(map[string]any{"data": want.Data})
		if err != nil {
			return err
		}
		_, err = configs.Patch(ctx, want.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
}
