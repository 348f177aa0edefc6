package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// install applies the definitions of files and folders, and waits until the API server serves them.
func install(ctx context.Context, config *rest.Config, names []string) error {
	if len(names) == 0 {
		return nil
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("faults: create a client: %w", err)
	}
	for _, name := range names {
		files := []string{name}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(name, "*.yaml")); err != nil {
				return fmt.Errorf("faults: list %s: %w", name, err)
			}
		}
		for _, file := range files {
			if err := installFile(ctx, client.Resource(definitions), file); err != nil {
				return fmt.Errorf("faults: install %s: %w", file, err)
			}
		}
	}
	return nil
}

func installFile(ctx context.Context, client dynamic.ResourceInterface, file string) error {
	content, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	decoder := yaml.NewYAMLOrJSONDecoder(content, 4096)
	for {
		definition := &unstructured.Unstructured{}
		if err := decoder.Decode(&definition.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if definition.GetKind() != "CustomResourceDefinition" {
			continue
		}
		if _, err := client.Apply(ctx, definition.GetName(), definition, metav1.ApplyOptions{FieldManager: "faults", Force: true}); err != nil {
			return err
		}
		if err := established(ctx, client, definition.GetName()); err != nil {
			return err
		}
	}
}

// established waits until the API server serves a definition.
func established(ctx context.Context, client dynamic.ResourceInterface, name string) error {
	watcher, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		definition, is := event.Object.(*unstructured.Unstructured)
		if !is {
			continue
		}
		conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
		for _, condition := range conditions {
			if condition, is := condition.(map[string]any); is && condition["type"] == "Established" && condition["status"] == "True" {
				return nil
			}
		}
	}
	return fmt.Errorf("wait until %s is served: %w", name, errors.Join(ctx.Err(), errors.New("the watch ended")))
}
