package up

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// sampleLabel marks the samples of up. Objects without it are not samples.
const sampleLabel = "stable.simple-bellerophon.io/sample"

// horses holds the names of winged horses of several mythologies.
var horses = []string{"pegasus", "arion", "buraq", "tulpar", "chollima", "uchchaihshravas", "haizum"}

var sheroes = v1.GroupVersion.WithResource("sheroes")

// samples is the set of sample objects of a run.
type samples struct {
	config    *rest.Config
	namespace string
	image     string
	count     int

	madeNamespace bool // by this run
}

const fieldManager = "bellerophon-up"

// apply creates or updates the samples. If an object of the same name exists and is not a sample,
// apply leaves the object alone and fails.
func (s *samples) apply(ctx context.Context) error {
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return fmt.Errorf("making a client for %s: %w", s.config.Host, err)
	}
	resource := client.Resource(sheroes).Namespace(s.namespace)
	for i := range s.count {
		object := s.object(i)
		_, err := resource.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
		if apierrors.IsAlreadyExists(err) {
			err = s.renew(ctx, resource, object)
		}
		if err != nil {
			return fmt.Errorf("applying sample %s/%s: %w", s.namespace, object.GetName(), err)
		}
	}
	return nil
}

// renew applies a sample that an earlier run left behind.
func (s *samples) renew(ctx context.Context, resource dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	held, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if held.GetLabels()[sampleLabel] == "" {
		return errors.New("an object of this name is there that is no sample; choose another --namespace")
	}
	_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

func (s *samples) object(i int) *unstructured.Unstructured {
	spec := map[string]any{"winged_horse_name": horses[i%len(horses)], "replicas": int64(1 + i%3)}
	if s.image != "" {
		spec["image"] = s.image
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1.GroupVersion.String(),
		"kind":       "BellerophonSimple",
		"metadata": map[string]any{
			"name":      s.name(i),
			"namespace": s.namespace,
			"labels":    map[string]any{sampleLabel: "up"},
		},
		"spec": spec,
	}}
}

// remove deletes the samples, and their namespace if this run created it.
func (s *samples) remove(ctx context.Context) error {
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return fmt.Errorf("making a client for %s: %w", s.config.Host, err)
	}
	err = client.Resource(sheroes).Namespace(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: sampleLabel + "=up"})
	if err != nil || !s.madeNamespace {
		return err
	}
	core, err := typedcorev1.NewForConfig(s.config)
	if err != nil {
		return fmt.Errorf("making a client for %s: %w", s.config.Host, err)
	}
	return core.Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{})
}

// name returns the name of a sample.
func (s *samples) name(i int) string { return fmt.Sprintf("shero-%d", i+1) }
