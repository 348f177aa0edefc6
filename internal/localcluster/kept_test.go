package localcluster

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAClusterBeginsWithWhatAnotherKept(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "kept")
	first, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	create := func(c *Cluster, name string) {
		t.Helper()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := clientOf(t, c).CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
	create(first, "first")
	if err := first.StopAndKeep(kept); err != nil {
		t.Fatal(err)
	}
	if err := first.StopAndKeep(filepath.Join(kept, "again")); err != nil {
		t.Errorf("a cluster that was stopped: %v", err)
	}
	// A second cluster shows that the data are a copy.
	for _, name := range []string{"second", "third"} {
		c, err := Start(t.Context(), Options{Data: kept})
		if err != nil {
			t.Fatal(err)
		}
		client := clientOf(t, c)
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), "first", metav1.GetOptions{}); err != nil {
			t.Errorf("what was kept: %v", err)
		}
		if _, err := client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{}); err != nil {
			t.Errorf("the node: %v", err)
		}
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), "second", metav1.GetOptions{}); err == nil {
			t.Error("a cluster changed the data that were kept")
		}
		create(c, name)
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestAClusterWithDataThatAreMissingSaysSo(t *testing.T) {
	if c, err := Start(t.Context(), Options{Data: filepath.Join(t.TempDir(), "none")}); err == nil {
		_ = c.Stop()
		t.Error("it started")
	}
}
