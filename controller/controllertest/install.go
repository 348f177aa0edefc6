package controllertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// Namespace creates a namespace for a test, which is deleted at the test's end. When Namespace returns, Pods
// can be created in it.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatalf("controllertest: %v", err)
	}
	made, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("controllertest: create a namespace: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended at this point.
		if err := client.CoreV1().Namespaces().Delete(context.Background(), made.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("controllertest: delete the namespace %s: %v", made.Name, err)
		}
	})
	if err := c.ensureServiceAccount(t.Context(), client, made.Name); err != nil {
		t.Fatalf("controllertest: the service account of namespace %s: %v", made.Name, err)
	}
	return made.Name
}

// ensureServiceAccount waits until the namespace has the service account that Pods run as. Without a
// controller manager it creates the account.
func (c *Cluster) ensureServiceAccount(ctx context.Context, client kubernetes.Interface, namespace string) error {
	accounts := client.CoreV1().ServiceAccounts(namespace)
	if c.apiOnly {
		_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
		return err
	}
	watching, err := accounts.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, "default").String()})
	if err != nil {
		return err
	}
	return until(ctx, watching, func(event watch.Event) bool { return event.Type == watch.Added })
}

// until waits for an event of a watch.
func until(ctx context.Context, watching watch.Interface, is func(watch.Event) bool) error {
	defer watching.Stop()
	for event := range watching.ResultChan() {
		if is(event) {
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.New("the watch ended too early")
}

// Install creates the CustomResourceDefinitions of YAML or JSON files, or of all such files in directories.
// It returns when they are served. A definition that exists is replaced. Other kinds in the files are skipped.
func (c *Cluster) Install(t testing.TB, paths ...string) {
	t.Helper()
	client, err := apiextensions.NewForConfig(c.Config())
	if err != nil {
		t.Fatalf("controllertest: %v", err)
	}
	for _, path := range paths {
		definitions, err := definitionsOf(path)
		if err == nil && len(definitions) == 0 {
			err = errors.New("it has no CustomResourceDefinition")
		}
		if err != nil {
			t.Fatalf("controllertest: install %s: %v", path, err)
		}
		for _, definition := range definitions {
			if err := install(t.Context(), client.CustomResourceDefinitions(), definition); err != nil {
				t.Fatalf("controllertest: install %s of %s: %v", definition.Name, path, err)
			}
		}
	}
}

// definitionsOf reads the definitions of a file, or of the files in a directory.
func definitionsOf(path string) (definitions []*apiextensionsv1.CustomResourceDefinition, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		files = nil
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
				files = append(files, filepath.Join(path, entry.Name()))
			}
		}
	}
	for _, file := range files {
		read, err := definitionsIn(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		definitions = append(definitions, read...)
	}
	return definitions, nil
}

func definitionsIn(file string) (definitions []*apiextensionsv1.CustomResourceDefinition, err error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	documents := yaml.NewYAMLOrJSONDecoder(opened, 4096)
	for {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		switch err := documents.Decode(definition); {
		case errors.Is(err, io.EOF):
			return definitions, nil
		case err != nil:
			return nil, err
		case definition.Kind == "CustomResourceDefinition":
			definitions = append(definitions, definition)
		}
	}
}

// install creates or replaces a definition, and waits until it is served.
func install(ctx context.Context, client apiextensions.CustomResourceDefinitionInterface, definition *apiextensionsv1.CustomResourceDefinition) error {
	_, err := client.Create(ctx, definition, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var known *apiextensionsv1.CustomResourceDefinition
		if known, err = client.Get(ctx, definition.Name, metav1.GetOptions{}); err == nil {
			replacing := definition.DeepCopy()
			replacing.ResourceVersion = known.ResourceVersion
			_, err = client.Update(ctx, replacing, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		return err
	}
	watching, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, definition.Name).String()})
	if err != nil {
		return err
	}
	return until(ctx, watching, func(event watch.Event) bool {
		now, is := event.Object.(*apiextensionsv1.CustomResourceDefinition)
		return is && slices.ContainsFunc(now.Status.Conditions, func(condition apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
		})
	})
}
