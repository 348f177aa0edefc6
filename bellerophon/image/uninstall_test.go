package image_test

import (
	"strings"
	"testing"
	"time"

	herov1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/image"
	"github.com/bellerophon-io/bellerophon/bellerophon/uninstall"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
)

// TestUninstallingEverythingOnARealNodeTakesLastBackups removes a release with its objects, in the way that the guide shows,
// and begins again with what is left.
func TestUninstallingEverythingOnARealNodeTakesLastBackups(t *testing.T) {
	cluster := clustertest.WithRealNode(t)
	load(t, cluster, image.Operator, operator(t))
	load(t, cluster, image.Server, serverOf(t))
	h := newRealHero(t, cluster)
	release := []string{"install", "bellerophon", chart("bellerophon-operator"), "--namespace=" + h.namespace,
		"--set=image.pullPolicy=Never", "--set=webhooks.enabled=true", "--set=heroes.enabled=true", "--wait", "--timeout=2m"}
	helm(t, cluster.Kubeconfig(), release...)
	h.apply(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"backups"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"64Mi"}}}}`)
	h.apply(`{"apiVersion":"stable.bellerophon.io/v1","kind":"Bellerophon","metadata":{"name":"example"},
		"spec":{"replicas":3,"backup":{"volumeClaimName":"backups"},"storage":{"retention":"BackupThenDelete"}}}`)
	h.until("three members are ready", isRunning(3))
	h.put("horse", "pegasus")
	converge(t, cluster.AdminConfig(), h.namespace, "simple")

	options := uninstall.Options{Release: "bellerophon", Namespace: h.namespace, Everything: true, Timeout: 2 * time.Minute}
	plan, err := uninstall.Look(t.Context(), cluster.AdminConfig(), options)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := plan.Run(t.Context(), func(step uninstall.Step) { t.Logf("%v: %s %s", time.Since(began), step.Action, step) }); err != nil {
		t.Fatal(err)
	}
	wantNothing(t, cluster, h.namespace, "bellerophon")
	if left := kubectl(t, cluster, h.namespace, "get", "crd", "--output=name"); strings.Contains(left, herov1.GroupVersion.Group) {
		t.Errorf("there are still %s", left)
	}
	kubectl(t, cluster, h.namespace, "wait", "--for=delete", "pods", "--all", "--timeout=60s")
	if left := kubectl(t, cluster, h.namespace, "get", "pvc", "--output=name"); strings.TrimSpace(left) != "persistentvolumeclaim/backups" {
		t.Errorf("the volumes that are left are %q, want the user's own", left)
	}

	// The next installation finds no trace, and the last backup has what was written.
	helm(t, cluster.Kubeconfig(), release...)
	removeDefinition(t, cluster)
	h.name = "again"
	h.apply(`{"apiVersion":"stable.bellerophon.io/v1","kind":"Bellerophon","metadata":{"name":"again"},
		"spec":{"replicas":1,"storage":{"retention":"Delete"},"restore":{"volumeClaimName":"backups","hero":"example"}}}`)
	h.until("the last backup is restored", func(hero *herov1.Bellerophon) bool { return isRunning(1)(hero) && hero.Status.Restored })
	h.want("horse", "pegasus")

	// A namespace goes as a whole, with its webhooks and its objects in place.
	h.kubectl("delete", "hero", "again", "--timeout=2m")
	uninstalled(t, cluster.Kubeconfig(), h.core, h.namespace)
}
