package up

import (
	"context"
	"fmt"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// sampleLabel is on the samples of up, so that it knows them again.
const sampleLabel = "stable.simple-bellerophon.io/sample"

// horses with wings, of several mythologies.
var horses = []string{"pegasus", "arion", "buraq", "tulpar", "chollima", "uchchaihshravas", "haizum"}

var sheroes = v1.GroupVersion.WithResource("sheroes")

// samples are the sample objects of a run.
type samples struct {
	config    *rest.Config
	namespace string
	image     string
	count     int
}

// apply makes the samples what they should be, and their namespace if need be.
func (s samples) apply(ctx context.Context) error {
	core, err := typedcorev1.NewForConfig(s.config)
	if err != nil {
		return fmt.Errorf("making a client for %s: %w", s.config.Host, err)
	}
	_, err = core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", s.namespace, err)
	}
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return fmt.Errorf("making a client for %s: %w", s.config.Host, err)
	}
	for i := range s.count {
		object := s.object(i)
		_, err := client.Resource(sheroes).Namespace(s.namespace).
			Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "bellerophon-up", Force: true})
		if err != nil {
			return fmt.Errorf("applying sample %s/%s: %w", s.namespace, object.GetName(), err)
		}
	}
	return nil
}

func (s samples) object(i int) *unstructured.Unstructured {
	spec := map[string]any{"winged_horse_name": horses[i%len(horses)], "replicas": int64(1 + i%3)}
	if s.image != "" {
		spec["image"] = s.image
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1.GroupVersion.String(),
		"kind":       "BellerophonSimple",
		"metadata": map[string]any{
			"name":      fmt.Sprintf("shero-%d", i+1),
			"namespace": s.namespace,
			"labels":    map[string]any{sampleLabel: "up"},
		},
		"spec": spec,
	}}
}

// remove deletes the samples.
func (s samples) remove(ctx context.Context) error {
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return fmt.Errorf("making a client for %s: %w", s.config.Host, err)
	}
	return client.Resource(sheroes).Namespace(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: sampleLabel + "=up"})
}
