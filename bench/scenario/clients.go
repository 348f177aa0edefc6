package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bench/connection"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Namespace is the namespace of the load's objects.
const Namespace = "bench"

// Clients sends the load directly to the API server, not through the proxy.
type Clients struct{ *connection.Connection }

// NewClients returns clients that share one connection to the API server of the config.
func NewClients(config *rest.Config) (*Clients, error) {
	shared, err := connection.New(config)
	if err != nil {
		return nil, err
	}
	return &Clients{shared}, nil
}

// object returns the name of the i-th object of a load.
func object(prefix string, i int) types.NamespacedName {
	return types.NamespacedName{Namespace: Namespace, Name: fmt.Sprintf("%s-%05d", prefix, i)}
}

func (c *Clients) create(ctx context.Context, name types.NamespacedName, replicas int32) error {
	hero := &v1.BellerophonSimple{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: name.Namespace},
		Spec:       v1.BellerophonSimpleSpec{Replicas: &replicas},
	}
	if err := c.Heroes().Post().Namespace(name.Namespace).Resource(v1.Plural).Body(hero).Do(ctx).Error(); err != nil {
		return fmt.Errorf("creating %s: %w", name, err)
	}
	return nil
}

// rename changes spec.winged_horse_name of an object and returns the new generation.
func (c *Clients) rename(ctx context.Context, name types.NamespacedName, horse string) (int64, error) {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"winged_horse_name": horse}})
	if err != nil {
		return 0, err
	}
	var changed v1.BellerophonSimple
	err = c.Heroes().Patch(types.MergePatchType).Namespace(name.Namespace).Resource(v1.Plural).Name(name.Name).Body(patch).Do(ctx).Into(&changed)
	if err != nil {
		return 0, fmt.Errorf("changing %s: %w", name, err)
	}
	return changed.Generation, nil
}

func (c *Clients) remove(ctx context.Context, name types.NamespacedName) error {
	if err := c.Heroes().Delete().Namespace(name.Namespace).Resource(v1.Plural).Name(name.Name).Do(ctx).Error(); err != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return nil
}

// drift changes a child of an object as a foreign client would, and returns the child's new
// version.
func (c *Clients) drift(ctx context.Context, child child, object types.NamespacedName) (uint64, error) {
	changed, err := child.client(c).Patch(types.MergePatchType).Namespace(object.Namespace).Resource(child.resource).Name(object.Name).
		Body([]byte(child.patch)).Do(ctx).Get()
	if err != nil {
		return 0, fmt.Errorf("changing %s %s: %w", child.resource, object, err)
	}
	access, err := meta.Accessor(changed)
	if err != nil {
		return 0, fmt.Errorf("changing %s %s: %w", child.resource, object, err)
	}
	return versionOf(access), nil
}

// goneEvery is how often Clear checks whether all objects are gone. It polls because no single
// event reports that for four resources.
const goneEvery = 100 * time.Millisecond

// Clear deletes all BellerophonSimple objects of a namespace. It returns when their children and
// pods are gone as well.
func (c *Clients) Clear(ctx context.Context, namespace string) error {
	if err := c.Heroes().Delete().Namespace(namespace).Resource(v1.Plural).Do(ctx).Error(); err != nil {
		return fmt.Errorf("deleting the objects of %s: %w", namespace, err)
	}
	ticker := time.NewTicker(goneEvery)
	defer ticker.Stop()
	for {
		left, err := c.left(ctx, namespace)
		if err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting until the garbage collector has deleted %d children in %s: %w", left, namespace, context.Cause(ctx))
		}
	}
}

// left returns how many children and pods a namespace still has.
func (c *Clients) left(ctx context.Context, namespace string) (int, error) {
	children := metav1.ListOptions{LabelSelector: managedBy, ResourceVersion: "0"} // Version 0 reads from the API server's cache.
	sets, err := c.Core().AppsV1().StatefulSets(namespace).List(ctx, children)
	if err != nil {
		return 0, fmt.Errorf("listing StatefulSets: %w", err)
	}
	services, err := c.Core().CoreV1().Services(namespace).List(ctx, children)
	if err != nil {
		return 0, fmt.Errorf("listing Services: %w", err)
	}
	configs, err := c.Core().CoreV1().ConfigMaps(namespace).List(ctx, children)
	if err != nil {
		return 0, fmt.Errorf("listing ConfigMaps: %w", err)
	}
	pods, err := c.Core().CoreV1().Pods(namespace).List(ctx, children)
	if err != nil {
		return 0, fmt.Errorf("listing Pods: %w", err)
	}
	return len(sets.Items) + len(services.Items) + len(configs.Items) + len(pods.Items), nil
}
