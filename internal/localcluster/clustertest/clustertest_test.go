package clustertest

import (
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) { Main(m) }

func TestNamespaceNamesTellTheTestAndAreValid(t *testing.T) {
	valid := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	for test, prefix := range map[string]string{
		"TestAPodBecomesReady":              "a-pod-becomes-ready-",
		"TestRBACRefuses/of_a_user (#01)":   "rbac-refuses-of-a-user-01-",
		"TestÜÖ":                            "",
		"Test" + strings.Repeat("Long", 40): "long-long-long-",
	} {
		name := namespaceName(test)
		if !strings.HasPrefix(name, prefix) || !valid.MatchString(name) {
			t.Errorf("namespaceName(%q) = %q, want %q and a valid name", test, name, prefix)
		}
		if again := namespaceName(test); again == name {
			t.Errorf("namespaceName(%q) = %q twice, want different names", test, name)
		}
	}
}

func TestPodsCanBeCreatedInANewNamespaceAtOnceAndItGoesWithTheTest(t *testing.T) {
	client, err := kubernetes.NewForConfig(Shared(t).AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	var namespace string
	t.Run("inner", func(t *testing.T) {
		namespace = Namespace(t)
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "one"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "one", Image: "one"}}},
		}
		if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Errorf("creating a Pod: %v", err)
		}
	})
	// The namespace is either gone or being deleted.
	found, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + namespace})
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range found.Items {
		if left.DeletionTimestamp == nil {
			t.Errorf("the namespace %s outlives its test", namespace)
		}
	}
}
