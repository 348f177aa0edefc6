package render_test

import (
	"slices"
	"strings"
	"testing"

	herov1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/render"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

func server(t *testing.T, values map[string]any) render.Manifests {
	t.Helper()
	manifests, err := render.Server("store", "home", values)
	if err != nil {
		t.Fatal(err)
	}
	return manifests
}

func TestTheSoftwareRunsWithoutItsOperator(t *testing.T) {
	manifests := server(t, map[string]any{"replicas": 5, "config": map[string]any{"log-level": "debug"}})
	want := []string{
		"PodDisruptionBudget home/store", "ConfigMap home/store", "Service home/store", "Service home/store-members", "StatefulSet home/store",
	}
	if got := names(manifests.Objects); !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	set := typed(t, manifests, "StatefulSet", &appsv1.StatefulSet{})
	pod := set.Spec.Template
	isRestricted(t, pod.ObjectMeta, pod.Spec)
	peers := ""
	for _, argument := range pod.Spec.Containers[0].Args {
		if given, is := strings.CutPrefix(argument, "--peers="); is {
			peers = given
		}
	}
	if all := strings.Split(peers, ","); len(all) != 5 || all[4] != "store-4.store-members.home.svc:7070" {
		t.Errorf("the peers are %q", peers)
	}
	if config := typed(t, manifests, "ConfigMap", &corev1.ConfigMap{}); config.Data["BELLEROPHON_LOG_LEVEL"] != "debug" {
		t.Errorf("the settings are %v", config.Data)
	}
	other := typed(t, server(t, map[string]any{"replicas": 5}), "StatefulSet", &appsv1.StatefulSet{})
	if other.Spec.Template.Annotations["stable.bellerophon.io/config"] == pod.Annotations["stable.bellerophon.io/config"] {
		t.Error("a change of the settings restarts no member")
	}
}

func TestWithTLSMembersAndProbesUseIt(t *testing.T) {
	set := typed(t, server(t, map[string]any{"tls": map[string]any{"secretName": "mine"}}), "StatefulSet", &appsv1.StatefulSet{})
	container := set.Spec.Template.Spec.Containers[0]
	if scheme := container.ReadinessProbe.HTTPGet.Scheme; scheme != corev1.URISchemeHTTPS || !slices.Contains(container.Args, "--tls-key=/etc/bellerophon/tls/tls.key") {
		t.Errorf("the probe uses %s, and the arguments are %q", scheme, container.Args)
	}
	if volumes := set.Spec.Template.Spec.Volumes; len(volumes) != 2 || volumes[1].Secret.SecretName != "mine" {
		t.Errorf("the volumes are %+v", volumes)
	}
}

func TestAHeroOfTheChartIsAllThatTheOperatorNeeds(t *testing.T) {
	manifests := server(t, map[string]any{"hero": true, "networkPolicy": map[string]any{"enabled": true}, "config": map[string]any{"quota": "1Gi"}})
	if got, want := names(manifests.Objects), []string{"NetworkPolicy home/store", "Bellerophon home/store"}; !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	hero := typed(t, manifests, "Bellerophon", &herov1.Bellerophon{})
	if hero.Spec.Image != "bellerophon-io/bellerophon-server:v1" || *hero.Spec.Replicas != 3 || hero.Spec.Config["quota"] != "1Gi" || hero.Spec.Storage.Size.String() != "1Gi" {
		t.Errorf("the hero is %+v", hero.Spec)
	}
}

func TestBackupsHaveACronJobOfTheirOwn(t *testing.T) {
	values := map[string]any{"backup": map[string]any{"volumeClaimName": "backups"}}
	cron := typed(t, server(t, values), "CronJob", &batchv1.CronJob{})
	if pod := cron.Spec.JobTemplate.Spec.Template; !*cron.Spec.Suspend || !slices.Contains(pod.Spec.Containers[0].Args, "--host=store.home.svc:7070") {
		t.Errorf("suspended is %v, and the arguments are %q", *cron.Spec.Suspend, pod.Spec.Containers[0].Args)
	} else {
		isRestricted(t, pod.ObjectMeta, pod.Spec)
	}
	values["hero"], values["storage"] = true, map[string]any{"retention": "BackupThenDelete"}
	hero := typed(t, server(t, values), "Bellerophon", &herov1.Bellerophon{})
	if backup := hero.Spec.Backup; hero.Spec.Storage.Retention != herov1.RetentionBackupThenDelete || backup == nil || backup.VolumeClaimName != "backups" || *backup.Keep != 7 {
		t.Errorf("the hero has the backup %+v", backup)
	}
}

func TestPrometheusScrapesTheMembersByTheirOwnService(t *testing.T) {
	manifests := server(t, map[string]any{"serviceMonitor": map[string]any{"enabled": true}})
	if !slices.Contains(names(manifests.Objects), "ServiceMonitor home/store") {
		t.Errorf("objects %q", names(manifests.Objects))
	}
	// The operator makes that Service for a hero.
	manifests = server(t, map[string]any{"hero": true, "serviceMonitor": map[string]any{"enabled": true}})
	if got, want := names(manifests.Objects), []string{"Bellerophon home/store", "ServiceMonitor home/store"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("objects %q, want %q", got, want)
	}
}

func TestWrongValuesOfTheSoftwareAreRefusedByName(t *testing.T) {
	for want, values := range map[string]map[string]any{
		"replicas":                   {"replicas": 4},
		"log-levels":                 {"config": map[string]any{"log-levels": "debug"}},
		"size":                       {"storage": map[string]any{"size": "much"}},
		"retention":                  {"storage": map[string]any{"retention": "Never"}},
		"needs hero":                 {"storage": map[string]any{"retention": "BackupThenDelete"}, "backup": map[string]any{"volumeClaimName": "backups"}},
		"and backup.volumeClaimName": {"storage": map[string]any{"retention": "BackupThenDelete"}, "hero": true},
	} {
		if _, err := render.Server("store", "home", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", values, err, want)
		}
	}
}
