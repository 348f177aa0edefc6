package hero

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/controller"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// lastBackupFinalizer keeps a deleted hero until its last backup has been taken.
const lastBackupFinalizer = "stable.bellerophon.io/last-backup"

// wayOut is what a person can do about a last backup that cannot be taken.
const wayOut = "set storage.retention to Retain or Delete to let the hero go without it"

// Finalizers are the finalizers that only the operator removes.
var Finalizers = []string{lastBackupFinalizer, growthFinalizer}

// needsLastBackup reports whether a hero has the finalizer. All others can go while no operator runs.
func needsLastBackup(hero *v1.Bellerophon) bool {
	return hero.Spec.Storage.Retention == v1.RetentionBackupThenDelete && hero.Spec.Backup != nil
}

// lastBackupName returns the name of the Job that takes the last backup.
func lastBackupName(hero *v1.Bellerophon) string { return hero.Name + "-last-backup" }

// lastBackupOf returns the Job that takes the last backup.
func lastBackupOf(hero *v1.Bellerophon) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metaOf(hero, lastBackupName(hero)), Spec: backupOf(hero)}
}

// finalize takes the last backup of a deleted hero, and then gives its volumes to the StatefulSet, which deletes them. The
// garbage collector deletes the StatefulSet when the finalizer is removed.
func (r *reconciler) finalize(ctx context.Context, hero *v1.Bellerophon) (time.Duration, error) {
	// With kubectl delete --cascade=orphan the children stay, with their data.
	if !hero.Status.Bootstrapped || slices.Contains(hero.Finalizers, metav1.FinalizerOrphanDependents) {
		return 0, nil
	}
	left, again, err := r.advance(ctx, hero, []step{r.takeLastBackup, r.giveVolumes})
	if left != nil && err == nil && again == 0 {
		again = lookAgain
	}
	return again, err
}

// takeLastBackup returns nil when the last backup has been taken.
func (r *reconciler) takeLastBackup(ctx context.Context, v *view) error {
	wanted := lastBackupOf(v.hero)
	job, err := r.heldJob(ctx, v, wanted.Name)
	if err != nil {
		return err
	}
	if job == nil {
		return r.beginLastBackup(ctx, v, wanted)
	}
	switch completed, failed := endOf(job); {
	case completed:
		return nil
	case failed != "":
		return problem{reason: "LastBackupFailed", message: fmt.Sprintf("the Job %s failed: %s; see the log of its pods. Delete the Job to try again, or %s", job.Name, failed, wayOut)}
	}
	if needed := r.needBackupClaim(ctx, v); needed != nil {
		return needed
	}
	return waiting("the last backup is taken")
}

// needBackupClaim returns a problem if the volume of the backups does not exist.
func (r *reconciler) needBackupClaim(ctx context.Context, v *view) error {
	err := r.needClaim(ctx, v, "spec.backup.volumeClaimName", v.hero.Spec.Backup.VolumeClaimName)
	var missing problem
	if errors.As(err, &missing) {
		missing.message += ", or " + wayOut
		return missing
	}
	return err
}

func (r *reconciler) beginLastBackup(ctx context.Context, v *view, wanted *batchv1.Job) error {
	cron, err := controller.Get[*batchv1.CronJob](ctx, r.client, types.NamespacedName{Namespace: v.hero.Namespace, Name: backupName(v.hero)})
	if controller.IgnoreNotFound(err) != nil {
		return err
	}
	var result error = waiting("the last backup is taken")
	options := []controller.WriteOption{controller.DryRun()} // Such a creation only says whether the namespace goes.
	needed := r.needBackupClaim(ctx, v)
	switch {
	case failure(needed) != nil:
		return needed
	case needed != nil:
		result = needed
	case v.leader == nil:
		result = waiting("the last backup waits for a leader; " + wayOut)
	case err == nil && len(cron.Status.Active) > 0: // One process may use the folder at a time.
		result = waiting("the last backup waits for the backup that runs")
	default:
		options = nil
	}
	_, err = controller.Create(ctx, r.client, wanted, options...)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // Everything goes, also the volume of the backups. Only the answer to a creation says so.
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the Job %s: %w", wanted.Name, err)
	}
	return result
}

// giveVolumes returns nil when the volumes belong to the StatefulSet, so that they go with it.
func (r *reconciler) giveVolumes(ctx context.Context, v *view) error {
	if v.set == nil || v.set.DeletionTimestamp != nil {
		return nil
	}
	freed := *v
	freed.hero = v.hero.DeepCopy()
	freed.hero.Spec.Storage.Retention = v1.RetentionDelete
	if err := r.keepSet(ctx, &freed, v.replicas()); err != nil {
		return err
	}
	set, err := controller.Get[*owned.StatefulSet](ctx, r.client, nameOf(v.hero))
	if err != nil {
		return controller.IgnoreNotFound(err)
	}
	if set.Whole.Status.ObservedGeneration < set.Generation {
		return waiting("the volumes are given to the StatefulSet")
	}
	return nil
}
