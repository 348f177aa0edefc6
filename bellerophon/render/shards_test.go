package render_test

import (
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestThePodsOfShardsWriteAllLeasesOfTheirNamespaceAndHoldNoElection(t *testing.T) {
	manifests := operator(t, map[string]any{"replicas": 3, "shards": map[string]any{"enabled": true}})
	if got, want := container(t, manifests), "bellerophon-io/bellerophon:v1 operator --shards=home/bellerophon --protection=protected"; got != want {
		t.Errorf("image and arguments %q, want %q", got, want)
	}
	if made := deployment(t, manifests); *made.Spec.Replicas != 3 || made.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		t.Errorf("the deployment is %+v", made.Spec)
	}
	for _, object := range manifests.Objects {
		if object.GetName() != "bellerophon-replicas" || object.GetKind() != "Role" {
			continue
		}
		want := map[string]string{"leases.coordination.k8s.io": "create delete get list update watch", "events.events.k8s.io": "create patch"}
		if got := granted(decoded(t, object, &rbacv1.Role{}).Rules); !maps.Equal(got, want) {
			t.Errorf("granted %v, want %v", got, want)
		}
		return
	}
	t.Errorf("there is no Role for Leases: %q", names(manifests.Objects))
}

func TestClientAuthoritiesAreMountedWhereTheOperatorReadsThem(t *testing.T) {
	for _, secret := range []string{"", "metrics-tls"} {
		manifests := operator(t, map[string]any{"metrics": map[string]any{"clientAuthorities": "clients", "certificateSecret": secret}})
		if got := container(t, manifests); !strings.Contains(got, " --client-authorities=/etc/bellerophon/clients/ca.crt") {
			t.Errorf("image and arguments %q", got)
		}
		pod := deployment(t, manifests).Spec.Template.Spec
		mounts, volumes := pod.Containers[0].VolumeMounts, pod.Volumes
		mount, volume := mounts[len(mounts)-1], volumes[len(volumes)-1]
		if mount.Name != volume.Name || mount.MountPath != "/etc/bellerophon/clients" || volume.ConfigMap == nil || volume.ConfigMap.Name != "clients" || len(mounts) != len(volumes) {
			t.Errorf("the mounts are %+v of %+v", mounts, volumes)
		}
	}
	manifests := operator(t, map[string]any{"metrics": map[string]any{"protected": false, "clientAuthorities": "clients"}})
	if got := container(t, manifests); strings.Contains(got, "client-authorities") {
		t.Errorf("plain HTTP has client certificates: %q", got)
	}
}
