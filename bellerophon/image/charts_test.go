package image_test

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"k8s.io/client-go/kubernetes"
)

// chart returns the folder of a chart.
func chart(name string) string { return filepath.Join("..", "..", "charts", name) }

// valuesOfGoldens returns the option of Helm for the values of a golden file.
func valuesOfGoldens(name string) string {
	return "--values=" + filepath.Join("..", "render", "testdata", "values", name)
}

func TestHelmLintsTheCharts(t *testing.T) {
	for name, goldens := range map[string]string{"bellerophon": "server-*.yaml", "bellerophon-operator": "operator-*.yaml"} {
		helm(t, "", "lint", "--strict", chart(name))
		files, err := filepath.Glob(filepath.Join("..", "render", "testdata", "values", goldens))
		if err != nil || len(files) == 0 {
			t.Fatalf("there are no values of the chart %s: %v", name, err)
		}
		for _, file := range files {
			helm(t, "", "lint", "--strict", chart(name), "--namespace=home", "--values="+file)
		}
	}
}

// restrictedNamespace returns a namespace of the shared cluster that takes only restricted pods.
func restrictedNamespace(t *testing.T) (cluster *localcluster.Cluster, namespace string) {
	t.Helper()
	cluster, namespace = clustertest.Shared(t), clustertest.Namespace(t)
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	restrict(t, client, namespace)
	return cluster, namespace
}

// wantField checks a field of an object, which kubectl finds by a JSON path.
func wantField(t *testing.T, cluster *localcluster.Cluster, namespace, object, path, want string) {
	t.Helper()
	if got := kubectl(t, cluster, namespace, "get", object, "--output=jsonpath={"+path+"}"); !strings.Contains(got, want) {
		t.Errorf("%s of %s is %q, want %q", path, object, got, want)
	}
}

// wantNothing checks that a release has left no object behind. Releases in other namespaces may have the same name.
func wantNothing(t *testing.T, cluster *localcluster.Cluster, namespace, release string) {
	t.Helper()
	kinds := "deployments,statefulsets,cronjobs,services,configmaps,secrets,serviceaccounts,roles,rolebindings,poddisruptionbudgets,networkpolicies," +
		"clusterroles,clusterrolebindings,validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings"
	found := kubectl(t, cluster, namespace, "get", kinds, "--selector=app.kubernetes.io/managed-by=Helm,app.kubernetes.io/instance="+release,
		`--output=jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.annotations.meta\.helm\.sh/release-namespace}{"\n"}{end}`)
	for line := range strings.Lines(found) {
		if strings.HasSuffix(line, " "+namespace+"\n") {
			t.Errorf("the release left %s", line)
		}
	}
}

func TestHelmUpgradesTheOperatorAndKeepsWhatTheOperatorHasWritten(t *testing.T) {
	cluster, namespace := restrictedNamespace(t)
	kubeconfig, operator, release := cluster.Kubeconfig(), chart("bellerophon-operator"), "--namespace="+namespace
	helm(t, kubeconfig, "install", "upgraded", operator, release, "--set=webhooks.enabled=true", "--set=networkPolicy.enabled=true", "--wait", "--timeout=2m")
	if found := kubectl(t, cluster, namespace, "get", "crd", "heroes.stable.bellerophon.io", "--ignore-not-found", "--output=name"); found != "" {
		t.Fatalf("there is %s without heroes.enabled", found)
	}

	removeDefinition(t, cluster)
	helm(t, kubeconfig, "upgrade", "upgraded", operator, release, "--reuse-values", "--set=heroes.enabled=true", "--set=replicas=3", "--wait", "--timeout=2m")
	wantField(t, cluster, namespace, "deployment/upgraded", ".spec.template.spec.containers[0].args", "--heroes")
	wantField(t, cluster, namespace, "deployment/upgraded", ".status.readyReplicas", "3")
	kubectl(t, cluster, namespace, "wait", "--for=condition=Established", "crd/heroes.stable.bellerophon.io", "--timeout=60s")

	// The operator fills these in. It does not run here.
	authority := base64.StdEncoding.EncodeToString(cluster.AdminConfig().CAData)
	for object, patch := range map[string]string{
		"crd/heroes.stable.bellerophon.io":      `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":%q}}}}}`,
		"secret/upgraded-webhooks-certificates": `{"data":{"ca.crt":%q}}`,
		"validatingwebhookconfiguration/upgraded-webhooks." + namespace: `{"webhooks":[{"name":"names.bellerophon.io","admissionReviewVersions":["v1"],` +
			`"sideEffects":"None","clientConfig":{"url":"https://127.0.0.1/","caBundle":%q}}]}`,
	} {
		kubectl(t, cluster, namespace, "patch", object, "--type=merge", "--field-manager=bellerophon", "--patch="+fmt.Sprintf(patch, authority))
	}

	// The clusters of heroes come from the other chart.
	helm(t, kubeconfig, "install", "store", chart("bellerophon"), release, valuesOfGoldens("server-hero.yaml"), "--set=serviceMonitor.enabled=false")
	wantField(t, cluster, namespace, "hero/store", ".spec.config.log-level", "debug")
	helm(t, kubeconfig, "upgrade", "store", chart("bellerophon"), release, "--reuse-values", "--set=config.log-level=warn", "--set=replicas=7")
	wantField(t, cluster, namespace, "hero/store", ".spec.config.log-level", "warn")
	wantField(t, cluster, namespace, "hero/store", ".spec.replicas", "7")

	helm(t, kubeconfig, "upgrade", "upgraded", operator, release, "--reuse-values", "--set=replicas=1", "--set=metrics.protected=false", "--wait", "--timeout=2m")
	wantField(t, cluster, namespace, "deployment/upgraded", ".status.replicas", "1")
	wantField(t, cluster, namespace, "crd/heroes.stable.bellerophon.io", ".spec.conversion.webhook.clientConfig.caBundle", authority)
	wantField(t, cluster, namespace, "secret/upgraded-webhooks-certificates", ".data", authority)
	wantField(t, cluster, namespace, "validatingwebhookconfiguration/upgraded-webhooks."+namespace, ".webhooks[0].clientConfig.caBundle", authority)

	helm(t, kubeconfig, "uninstall", "upgraded", release, "--wait", "--timeout=2m")
	wantNothing(t, cluster, namespace, "upgraded")
	wantField(t, cluster, namespace, "hero/store", ".spec.replicas", "7") // The definition stays, and the heroes do.
	helm(t, kubeconfig, "uninstall", "store", release, "--wait", "--timeout=2m")
	wantNothing(t, cluster, namespace, "store")
	if left := kubectl(t, cluster, namespace, "get", "heroes", "--output=name"); left != "" {
		t.Errorf("the release left %s", left)
	}
}

func TestHelmUpgradesTheSoftwareWithAllOfItsParts(t *testing.T) {
	cluster, namespace := restrictedNamespace(t)
	kubeconfig, release := cluster.Kubeconfig(), "--namespace="+namespace
	kubectl(t, cluster, namespace, "create", "secret", "generic", "certificate", "--from-literal=tls.crt=c", "--from-literal=tls.key=k", "--from-literal=ca.crt=a")
	helm(t, kubeconfig, "install", "store", chart("bellerophon"), release, "--set=tls.secretName=certificate", "--set=backup.volumeClaimName=backups",
		"--set=networkPolicy.enabled=true", "--wait", "--timeout=2m")
	wantField(t, cluster, namespace, "statefulset/store", ".status.readyReplicas", "3")
	before := kubectl(t, cluster, namespace, "get", "statefulset/store", "--output=jsonpath={.status.currentRevision}")

	helm(t, kubeconfig, "upgrade", "store", chart("bellerophon"), release, "--reuse-values", "--set=config.log-level=debug", "--set=backup.schedule=0 3 * * *",
		"--wait", "--timeout=3m")
	wantField(t, cluster, namespace, "configmap/store", ".data.BELLEROPHON_LOG_LEVEL", "debug")
	wantField(t, cluster, namespace, "cronjob/store-backup", ".spec.schedule", "0 3 * * *")
	kubectl(t, cluster, namespace, "rollout", "status", "statefulset/store", "--timeout=2m")
	after := kubectl(t, cluster, namespace, "get", "statefulset/store", "--output=jsonpath={.status.currentRevision}")
	if before == after {
		t.Errorf("the members still have the revision %s", after)
	}

	// The pods of a backup are restricted, too.
	kubectl(t, cluster, namespace, "create", "job", "now", "--from=cronjob/store-backup")
	kubectl(t, cluster, namespace, "wait", "--for=create", "pod", "--selector=store-client=true", "--timeout=60s")

	helm(t, kubeconfig, "uninstall", "store", release, "--wait", "--timeout=2m")
	wantNothing(t, cluster, namespace, "store")
	if claims := kubectl(t, cluster, namespace, "get", "pvc", "--output=name"); strings.Count(claims, "\n") != 3 {
		t.Errorf("the volumes that stay are %q, want those of 3 members", claims)
	}
}
