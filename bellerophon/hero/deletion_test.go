package hero

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// createWithLastBackup makes a hero of one member that is backed up before its deletion.
func (w *world) createWithLastBackup() {
	w.t.Helper()
	claim := claimOf(&v1.Bellerophon{Spec: v1.BellerophonSpec{Storage: v1.Storage{Size: resource.MustParse("1Gi"), ClassName: &byHand}}})
	claim.Name = "backups"
	if _, err := w.core.CoreV1().PersistentVolumeClaims(w.namespace).Create(w.ctx, &claim, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.create(heroName, map[string]any{
		"replicas": int64(1), "backup": map[string]any{"volumeClaimName": "backups"}, "storage": map[string]any{"retention": "BackupThenDelete"},
	})
	w.ready()
}

// byHand is a class whose volumes a person makes.
var byHand = "by-hand"

// createBackupVolume makes the volume of the backups. Without it, the pods of a Job do not start.
func (w *world) createBackupVolume() {
	w.t.Helper()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: byHand, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/simulated"}},
		ClaimRef:               &corev1.ObjectReference{Namespace: w.namespace, Name: "backups"},
	}}
	if _, err := w.core.CoreV1().PersistentVolumes().Create(w.ctx, volume, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// says waits until a deleted hero has a phase, and the given text in the message of a condition.
func (w *world) says(phase v1.Phase, condition, text string) {
	w.t.Helper()
	w.eventually("the hero says "+text, func() error {
		hero := w.hero(heroName)
		if found := meta.FindStatusCondition(hero.Status.Conditions, condition); hero.Status.Phase != phase || found == nil || !strings.Contains(found.Message, text) {
			return fmt.Errorf("its status is %+v", hero.Status)
		}
		return nil
	})
}

func (w *world) deleteHero(propagation metav1.DeletionPropagation) {
	w.t.Helper()
	if err := w.heroes.Delete(w.ctx, heroName, metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) isGone() {
	w.t.Helper()
	w.eventually("the hero is gone", func() error {
		if _, err := w.heroes.Get(w.ctx, heroName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

func TestADeletedHeroIsBackedUpBeforeItsVolumesGo(t *testing.T) {
	w := newWorld(t)
	w.createWithLastBackup()
	if hero := w.hero(heroName); !slices.Contains(hero.Finalizers, lastBackupFinalizer) {
		t.Fatalf("the finalizers are %v", hero.Finalizers)
	}
	w.deleteHero(metav1.DeletePropagationBackground)
	w.says(v1.PhaseDeleting, v1.ConditionProgressing, "the last backup is taken")
	w.stop() // The operator may be killed at any time.
	w.startOperator()
	job, err := w.core.BatchV1().Jobs(w.namespace).Get(w.ctx, "bellerophon-last-backup", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if arguments := strings.Join(job.Spec.Template.Spec.Containers[0].Args, " "); !strings.HasPrefix(arguments, "server backup --name=bellerophon --keep=7") {
		t.Errorf("the arguments are %q", arguments)
	}
	if claims := w.claims(); !slices.Contains(claims, "data-bellerophon-0") {
		t.Fatalf("before the backup the claims are %v", claims)
	}
	w.createBackupVolume()
	w.isGone()
	w.eventually("the volume of the member is deleted, and the one of the backups is not", func() error {
		if claims := w.claims(); len(claims) != 1 || claims[0] != "backups" {
			return fmt.Errorf("%v", claims)
		}
		return nil
	})
}

func TestALastBackupThatFailsKeepsTheHeroUntilAPersonDecides(t *testing.T) {
	w := newWorld(t)
	w.createWithLastBackup()
	w.deleteHero(metav1.DeletePropagationBackground)
	w.says(v1.PhaseDeleting, v1.ConditionProgressing, "the last backup is taken")
	w.eventually("the Job has failed", func() error {
		job, err := w.core.BatchV1().Jobs(w.namespace).Get(w.ctx, "bellerophon-last-backup", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if job.Status.StartTime == nil {
			return fmt.Errorf("it has not started: %+v", job.Status)
		}
		for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "Test", Message: "the volume is full", LastTransitionTime: metav1.Now()})
		}
		job.Status.Active, job.Status.Ready, job.Status.UncountedTerminatedPods = 0, nil, nil
		_, err = w.core.BatchV1().Jobs(w.namespace).UpdateStatus(w.ctx, job, metav1.UpdateOptions{})
		return err
	})
	w.says(v1.PhaseDegraded, v1.ConditionDegraded, "the volume is full")
	w.says(v1.PhaseDegraded, v1.ConditionDegraded, "set storage.retention to Retain or Delete")
	w.change(`{"spec":{"storage":{"retention":"Retain"}}}`)
	w.isGone()
	w.eventually("the StatefulSet is gone", func() error {
		if _, err := w.core.AppsV1().StatefulSets(w.namespace).Get(w.ctx, heroName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	if claims := w.claims(); !slices.Contains(claims, "data-bellerophon-0") {
		t.Errorf("the claims are %v, want that of the member", claims)
	}
}

func TestAMissingVolumeOfTheLastBackupIsNamed(t *testing.T) {
	w := newWorld(t)
	w.createWithLastBackup()
	if err := w.core.CoreV1().PersistentVolumeClaims(w.namespace).Delete(w.ctx, "backups", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the claim is gone", func() error {
		if claims := w.claims(); slices.Contains(claims, "backups") {
			return fmt.Errorf("%v", claims)
		}
		return nil
	})
	w.deleteHero(metav1.DeletePropagationBackground)
	w.says(v1.PhaseDegraded, v1.ConditionDegraded, "there is no PersistentVolumeClaim backups, which spec.backup.volumeClaimName names")
	w.change(`{"spec":{"storage":{"retention":"Delete"}}}`)
	w.isGone()
}

// With --cascade=foreground the members go at once, so that no backup can be taken. No volume may go without one.
func TestWithoutMembersNoVolumeGoesWithoutABackup(t *testing.T) {
	w := newWorld(t)
	w.createWithLastBackup()
	w.deleteHero(metav1.DeletePropagationForeground)
	w.says(v1.PhaseDeleting, v1.ConditionProgressing, "set storage.retention to Retain or Delete")
	w.eventually("the StatefulSet is gone", func() error {
		if _, err := w.core.AppsV1().StatefulSets(w.namespace).Get(w.ctx, heroName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	if claims := w.claims(); !slices.Contains(claims, "data-bellerophon-0") {
		t.Errorf("the claims are %v, want that of the member", claims)
	}
	w.change(`{"spec":{"storage":{"retention":"Delete"}}}`)
	w.isGone()
}

func TestAHeroThatNeedsNoLastBackupHasNoFinalizer(t *testing.T) {
	w := newWorld(t)
	w.createWithLastBackup()
	w.change(`{"spec":{"storage":{"retention":"Delete"}}}`)
	w.eventually("the finalizer is removed", func() error {
		if hero := w.hero(heroName); len(hero.Finalizers) > 0 {
			return fmt.Errorf("%v", hero.Finalizers)
		}
		return nil
	})
	_, err := w.heroes.Patch(w.ctx, heroName, types.MergePatchType, []byte(`{"spec":{"backup":null,"storage":{"retention":"BackupThenDelete"}}}`), metav1.PatchOptions{})
	if err == nil || !strings.Contains(err.Error(), "needs spec.backup") {
		t.Errorf("a last backup without a volume: %v", err)
	}
}

func TestAHeroWithItsNamespaceGoesWithoutALastBackup(t *testing.T) {
	w := newWorld(t)
	w.createWithLastBackup()
	if err := w.core.CoreV1().Namespaces().Delete(w.ctx, w.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.isGone()
}
