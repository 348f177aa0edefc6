package simulation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// newReal returns a world over a real API server, which has no objects of the simulation so far.
func newReal(ctx context.Context, config *rest.Config, objects int, show func(string), seed func(replica int)) (*world, error) {
	definer, err := apiextensions.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	for _, definition := range definitions() {
		if _, err := definer.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, definition, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("creating %s: %w", definition.Name, err)
		}
		if err := served(ctx, definer, definition.Name); err != nil {
			return nil, err
		}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating the namespace: %w", err)
	}
	others, err := newClients(config)
	if err != nil {
		return nil, err
	}
	if err := others.create(ctx, objects, show); err != nil {
		return nil, err
	}
	full, err := others.readAll(ctx)
	return &world{config: config, full: full, settle: func() {}, change: others.change, show: show, seed: seed, real: true}, err
}

// served waits until the API server serves a resource definition.
func served(ctx context.Context, client apiextensions.Interface, name string) error {
	watcher, err := client.ApiextensionsV1().CustomResourceDefinitions().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return fmt.Errorf("watching %s: %w", name, err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		definition, is := event.Object.(*apiextensionsv1.CustomResourceDefinition)
		if is && helpers.IsCRDConditionTrue(definition, apiextensionsv1.Established) {
			return nil
		}
	}
	return fmt.Errorf("the watch of %s ended before the API server served it: %w", name, context.Cause(ctx))
}
