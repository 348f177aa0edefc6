package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller/controllertest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// countInLabelled is a hook that keeps the number of the ConfigMaps named "marked" in the namespaces with a label.
const countInLabelled = `#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then cat <<YAML
configVersion: v1
kubernetes:
- name: marked
  kind: ConfigMap
  nameSelector: [marked]
  namespace: {labelSelector: {matchLabels: {hooks-test: %[1]s}}}
  jqFilter: .metadata.name
  keepFullObjectsInMemory: false
  group: all
YAML
exit 0; fi
cat > "$KUBERNETES_PATCH_PATH" <<YAML
operation: CreateOrUpdate
object: {apiVersion: v1, kind: ConfigMap, metadata: {name: count, namespace: %[1]s},
  data: {count: "$(grep -o '"filterResult"' "$BINDING_CONTEXT_PATH" | wc -l)"}}
YAML
`

// folderWith writes a hook to a folder of its own, and returns the folder.
func folderWith(t *testing.T, content string) string {
	t.Helper()
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "hook.sh"), []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
	return directory
}

func TestAHookFollowsTheNamespacesWithALabel(t *testing.T) {
	cluster := controllertest.Start(t)
	namespace, other := cluster.Namespace(t), cluster.Namespace(t)
	client := kubernetes.NewForConfigOrDie(cluster.Config()).CoreV1()
	label := func(name, value string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"hooks-test":%q}}}`, value)
		if _, err := client.Namespaces().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, each := range []string{namespace, other} {
		if _, err := client.ConfigMaps(each).Create(t.Context(), configMapIn(each, "marked"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label(namespace, namespace)
	configs := running(t, cluster, namespace, folderWith(t, fmt.Sprintf(countInLabelled, namespace)))
	counted := func(want string) func(*corev1.ConfigMap) bool {
		return func(now *corev1.ConfigMap) bool { return now != nil && now.Data["count"] == want }
	}
	awaitConfigMap(t, configs, "count", counted("1"))
	label(other, namespace)
	awaitConfigMap(t, configs, "count", counted("2"))
	label(namespace, "no")
	awaitConfigMap(t, configs, "count", counted("1"))
	label(other, "no")
	awaitConfigMap(t, configs, "count", counted("0"))
}
