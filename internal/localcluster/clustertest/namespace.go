package clustertest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

// Namespace creates a namespace in the shared cluster, with a name derived from the test's name.
// It waits until Pods can be created in the namespace. The namespace is deleted when the test
// ends, without waiting until it is gone.
func Namespace(t testing.TB) string {
	t.Helper()
	return NamespaceIn(t, Shared(t))
}

// NamespaceIn creates a namespace as Namespace does, in the given cluster.
func NamespaceIn(t testing.TB, cluster *localcluster.Cluster) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatalf("create a client: %v", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceName(t.Name())}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create the namespace %s: %v", namespace.Name, err)
	}
	t.Cleanup(func() {
		// The test's own context has ended at this point.
		if err := client.CoreV1().Namespaces().Delete(context.Background(), namespace.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete the namespace %s: %v", namespace.Name, err)
		}
	})
	if err := waitForServiceAccount(t.Context(), client, namespace.Name); err != nil {
		t.Fatalf("wait for the namespace %s: %v", namespace.Name, err)
	}
	return namespace.Name
}

// waitForServiceAccount waits for the default service account. Without the account that Pods run
// as, the API server refuses them.
func waitForServiceAccount(ctx context.Context, client kubernetes.Interface, namespace string) error {
	const name = "default"
	// A watch without a resource version starts with the objects that exist.
	watcher, err := client.CoreV1().ServiceAccounts(namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
	})
	if err != nil {
		return fmt.Errorf("watch the default service account: %w", err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if event.Type == watch.Added {
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.New("watch the default service account: the watch ended before the account was created")
}

var (
	wordStart    = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	acronymEnd   = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
	notInAnyName = regexp.MustCompile(`[^a-z0-9]+`)
)

// namespaceName converts "TestAPodBecomesReady" to a name like "a-pod-becomes-ready-x7k2p",
// within the limit of 63 characters.
func namespaceName(test string) string {
	name := wordStart.ReplaceAllString(strings.TrimPrefix(test, "Test"), "$1-$2")
	name = acronymEnd.ReplaceAllString(name, "$1-$2")
	name = strings.Trim(notInAnyName.ReplaceAllString(strings.ToLower(name), "-"), "-")
	return strings.TrimLeft(strings.TrimRight(name[:min(len(name), 50)], "-")+"-"+rand.String(5), "-")
}
