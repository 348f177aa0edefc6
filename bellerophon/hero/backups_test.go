package hero

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestBackupsAreACronJobThatIsSuspendedWithoutASchedule(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(1), "backup": map[string]any{"volumeClaimName": "backups"}})
	w.ready()
	crons := w.core.BatchV1().CronJobs(w.namespace)
	cron, err := crons.Get(w.ctx, "bellerophon-backup", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := cron.Spec.JobTemplate.Spec.Template
	if arguments := strings.Join(pod.Spec.Containers[0].Args, " "); !*cron.Spec.Suspend || !strings.Contains(arguments, "--keep=7") || !maps.Equal(pod.Labels, map[string]string{"bellerophon-client": "true"}) {
		t.Errorf("suspended is %v, the arguments are %q, and the labels %v", *cron.Spec.Suspend, arguments, pod.Labels)
	}
	w.change(`{"spec":{"backup":{"schedule":"0 3 * * *","keep":30}}}`)
	w.eventually("it has the schedule", func() error {
		cron, err := crons.Get(w.ctx, "bellerophon-backup", metav1.GetOptions{})
		if err == nil && (*cron.Spec.Suspend || cron.Spec.Schedule != "0 3 * * *") {
			err = fmt.Errorf("%+v", cron.Spec)
		}
		return err
	})
	// A change by another client is undone.
	if _, err := crons.Patch(w.ctx, "bellerophon-backup", types.MergePatchType, []byte(`{"spec":{"schedule":"0 4 * * *"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the change is undone", func() error {
		cron, err := crons.Get(w.ctx, "bellerophon-backup", metav1.GetOptions{})
		if err == nil && cron.Spec.Schedule != "0 3 * * *" {
			err = fmt.Errorf("%+v", cron.Spec)
		}
		return err
	})
	w.change(`{"spec":{"backup":null}}`)
	w.eventually("it is deleted", func() error {
		if _, err := crons.Get(w.ctx, "bellerophon-backup", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	w.ready()
}

func TestARestoreSaysThatItsVolumeIsMissingAndWaitsForIt(t *testing.T) {
	w := newWorld(t)
	w.create("bellerophon", map[string]any{"replicas": int64(1), "restore": map[string]any{"volumeClaimName": "backups"}})
	w.eventually("the hero says so", func() error {
		hero := w.hero("bellerophon")
		degraded := meta.FindStatusCondition(hero.Status.Conditions, v1.ConditionDegraded)
		if degraded == nil || degraded.Reason != "NoVolumeClaim" || !strings.Contains(degraded.Message, "spec.restore.volumeClaimName") {
			return fmt.Errorf("%+v", hero.Status)
		}
		return nil
	})
	claim := claimOf(&v1.Bellerophon{Spec: v1.BellerophonSpec{Storage: v1.Storage{Size: resource.MustParse("1Gi")}}})
	claim.Name = "backups"
	if _, err := w.core.CoreV1().PersistentVolumeClaims(w.namespace).Create(w.ctx, &claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !w.ready().Status.Restored {
		t.Error("the status does not say that the backup was restored")
	}
}

// TestARestoreIsMadeOnce has a simulated Job, which succeeds at once. On a real node it restores.
func TestARestoreIsMadeOnce(t *testing.T) {
	w := newWorld(t)
	claim := claimOf(&v1.Bellerophon{Spec: v1.BellerophonSpec{Storage: v1.Storage{Size: resource.MustParse("1Gi")}}})
	claim.Name = "backups"
	if _, err := w.core.CoreV1().PersistentVolumeClaims(w.namespace).Create(w.ctx, &claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.create("bellerophon", map[string]any{"restore": map[string]any{"volumeClaimName": "backups", "hero": "former"}})
	hero := w.ready()
	if !hero.Status.Restored {
		t.Error("the status does not say that the backup was restored")
	}
	jobs := w.core.BatchV1().Jobs(w.namespace)
	job, err := jobs.Get(w.ctx, "bellerophon-restore", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if arguments := strings.Join(job.Spec.Template.Spec.Containers[0].Args, " "); !strings.Contains(arguments, "--name=former") {
		t.Errorf("the arguments are %q", arguments)
	}
	background := metav1.DeletePropagationBackground
	if err := jobs.Delete(w.ctx, job.Name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	w.change(`{"spec":{"replicas":1}}`)
	w.ready()
	if _, err := jobs.Get(w.ctx, job.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Job is made again: %v", err)
	}
	_, err = w.heroes.Patch(w.ctx, "bellerophon", types.MergePatchType, []byte(`{"spec":{"restore":{"hero":"other"}}}`), metav1.PatchOptions{})
	if err == nil || !strings.Contains(err.Error(), "restore cannot be added or changed") {
		t.Errorf("another backup: %v", err)
	}
}
