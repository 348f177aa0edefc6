package hero

import (
	"cmp"
	"context"
	"fmt"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/controller"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	volumeBackups = "backups"
	backupsPath   = "/backups"
	// never is the schedule of a CronJob that is suspended, which must have one.
	never = "0 0 1 1 *"
	// defaultKeep is the default of the resource definition.
	defaultKeep = 7
)

// backupName returns the name of the CronJob. A Job of it takes a backup at once.
func backupName(hero *v1.Bellerophon) string { return hero.Name + "-backup" }

// restoreName returns the name of the Job that restores a backup.
func restoreName(hero *v1.Bellerophon) string { return hero.Name + "-restore" }

// backupsOf returns the CronJob that takes backups.
func backupsOf(hero *v1.Bellerophon) *batchv1.CronJob {
	suspended, zone, schedule := hero.Spec.Backup.Schedule == "", "Etc/UTC", hero.Spec.Backup.Schedule
	if suspended {
		schedule = never
	}
	return &batchv1.CronJob{ObjectMeta: metaOf(hero, backupName(hero)), Spec: batchv1.CronJobSpec{
		Schedule: schedule, TimeZone: &zone, Suspend: &suspended,
		ConcurrencyPolicy: batchv1.ForbidConcurrent, // One process may use the folder at a time.
		JobTemplate:       batchv1.JobTemplateSpec{Spec: backupOf(hero)},
	}}
}

// backupOf returns a Job that takes a backup.
func backupOf(hero *v1.Bellerophon) batchv1.JobSpec {
	keep := int32(defaultKeep)
	if hero.Spec.Backup.Keep != nil {
		keep = *hero.Spec.Backup.Keep
	}
	return jobOf(hero, hero.Spec.Backup.VolumeClaimName, "backup", "--name="+hero.Name, fmt.Sprintf("--keep=%d", keep))
}

// restoreOf returns the Job that restores a backup.
func restoreOf(hero *v1.Bellerophon) *batchv1.Job {
	from := hero.Spec.Restore
	name := from.Hero
	if name == "" {
		name = hero.Name
	}
	arguments := []string{"restore", "--name=" + name}
	if from.File != "" {
		arguments = append(arguments, "--file="+from.File)
	}
	return &batchv1.Job{ObjectMeta: metaOf(hero, restoreName(hero)), Spec: jobOf(hero, from.VolumeClaimName, arguments...)}
}

// clientLabels returns the labels of pods that the chart's NetworkPolicy lets connect to members. They select no member.
func clientLabels(hero *v1.Bellerophon) map[string]string {
	return map[string]string{hero.Name + "-client": "true"}
}

// jobAffinity returns the rules of a hero about nodes, which volumes and architectures need. A rule about pods would keep
// a Job pending while members are on all nodes.
func jobAffinity(hero *v1.Bellerophon) *corev1.Affinity {
	if hero.Spec.Affinity == nil || hero.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: hero.Spec.Affinity.NodeAffinity}
}

// jobOf returns a Job that runs a command of the server with the folder of backups. Its pods have none of the labels by
// which members are selected.
func jobOf(hero *v1.Bellerophon, claim string, arguments ...string) batchv1.JobSpec {
	tries := int32(2)
	pod := templateOf(hero)
	container := &pod.Spec.Containers[0]
	// The Service has the ready members only, so a name of it is enough.
	container.Args = append([]string{"server"}, arguments...)
	container.Args = append(container.Args, "--folder="+backupsPath, fmt.Sprintf("--host=%s.%s.svc:%d", hero.Name, hero.Namespace, port))
	mounts, volumes := []corev1.VolumeMount{{Name: volumeBackups, MountPath: backupsPath}}, []corev1.Volume{{
		Name: volumeBackups, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}},
	}}
	if hero.Spec.TLS != nil {
		container.Args = append(container.Args, tlsArguments()...)
		mounts, volumes = append(mounts, tlsMount()), append(volumes, tlsVolume(hero))
	}
	container.Ports, container.LivenessProbe, container.ReadinessProbe = nil, nil, nil
	container.Env, container.EnvFrom, container.VolumeMounts = nil, nil, mounts
	pod.Spec.Volumes, pod.Spec.RestartPolicy = volumes, corev1.RestartPolicyNever
	pod.Spec.Affinity = jobAffinity(hero)
	pod.ObjectMeta = metav1.ObjectMeta{Labels: clientLabels(hero)}
	return batchv1.JobSpec{BackoffLimit: &tries, Template: pod}
}

// keepBackups keeps the CronJob, or deletes it if the hero asks for no backups any more.
func (r *reconciler) keepBackups(ctx context.Context, v *view) error {
	if v.hero.Spec.Backup != nil {
		return keep[*batchv1.CronJob](ctx, r, v.hero, "CronJob", backupsOf(v.hero))
	}
	held, err := controller.Get[*batchv1.CronJob](ctx, r.client, types.NamespacedName{Namespace: v.hero.Namespace, Name: backupName(v.hero)})
	if apierrors.IsNotFound(err) || err == nil && (!metav1.IsControlledBy(held, v.hero) || held.DeletionTimestamp != nil) {
		return nil
	}
	if err != nil {
		return err
	}
	background := controller.Propagation(metav1.DeletePropagationBackground)
	if err := controller.Delete(ctx, r.client, held, controller.IfUnchanged(), background); controller.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the CronJob %s: %w", held.Name, err)
	}
	return nil
}

// lastBackup returns when the last backup was completed, or nil.
func (r *reconciler) lastBackup(ctx context.Context, v *view) (*metav1.Time, error) {
	held, err := controller.Get[*batchv1.CronJob](ctx, r.client, types.NamespacedName{Namespace: v.hero.Namespace, Name: backupName(v.hero)})
	if apierrors.IsNotFound(err) {
		return v.hero.Status.LastBackup, nil
	}
	if err != nil {
		return nil, err
	}
	if !metav1.IsControlledBy(held, v.hero) || held.Status.LastSuccessfulTime == nil {
		return v.hero.Status.LastBackup, nil
	}
	return held.Status.LastSuccessfulTime, nil
}

// restore restores a backup into a new cluster, once. A store that has keys already refuses it, so a kill between
// the end of the Job and its record costs nothing.
func (r *reconciler) restore(ctx context.Context, v *view) error {
	if v.hero.Spec.Restore == nil || v.hero.Status.Restored {
		return nil
	}
	if v.leader == nil {
		return waiting("the cluster elects its leader")
	}
	wanted := restoreOf(v.hero)
	job, err := r.heldJob(ctx, v, wanted.Name)
	if err != nil {
		return err
	}
	switch completed, failed := endOf(job); {
	case completed:
		return r.recordRestore(ctx, v)
	case failed != "":
		return problem{reason: "RestoreFailed", message: fmt.Sprintf("the Job %s failed: %s; see the log of its pods. Delete the Job to try again, or remove spec.restore to begin without the backup", job.Name, failed)}
	}
	if err := r.needClaim(ctx, v, "spec.restore.volumeClaimName", v.hero.Spec.Restore.VolumeClaimName); err != nil {
		return err
	}
	if job == nil {
		if _, err := controller.Create(ctx, r.client, wanted); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating the Job %s: %w", wanted.Name, err)
		}
	}
	return waiting("the backup is restored")
}

// needClaim returns a problem if the volume claim that a field of the hero names does not exist, or will not: a pod waits
// for it without a word.
func (r *reconciler) needClaim(ctx context.Context, v *view, field, name string) error {
	claim, err := controller.GetLive[*corev1.PersistentVolumeClaim](ctx, r.client, types.NamespacedName{Namespace: v.hero.Namespace, Name: name})
	switch {
	case apierrors.IsNotFound(err), err == nil && claim.DeletionTimestamp != nil:
		return problem{reason: "NoVolumeClaim", message: fmt.Sprintf("there is no PersistentVolumeClaim %s, which %s names; create it", name, field), recheck: recheckSoon}
	case err != nil:
		return fmt.Errorf("reading the volume claim %s: %w", name, err)
	}
	return nil
}

// heldJob returns a Job of the hero, or nil if there is none of the name.
func (r *reconciler) heldJob(ctx context.Context, v *view, name string) (*batchv1.Job, error) {
	job, err := controller.Get[*batchv1.Job](ctx, r.client, types.NamespacedName{Namespace: v.hero.Namespace, Name: name})
	if err != nil {
		return nil, controller.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(job, v.hero) {
		return nil, problem{reason: "NameConflict", message: fmt.Sprintf("Job %s %v", name, errNameTaken)}
	}
	return job, nil
}

// endOf reports whether a Job has completed, or why it failed. A Job that does not exist, nil, has done neither.
func endOf(job *batchv1.Job) (completed bool, failed string) {
	if job == nil {
		return false, ""
	}
	for _, condition := range job.Status.Conditions {
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == batchv1.JobComplete:
			completed = true
		case condition.Type == batchv1.JobFailed:
			failed = cmp.Or(condition.Message, condition.Reason, "no reason is given")
		}
	}
	return completed, failed
}

func (r *reconciler) recordRestore(ctx context.Context, v *view) error {
	after := v.hero.DeepCopy()
	after.Status.Restored = true
	written, err := controller.PatchStatus(ctx, r.client, after, controller.MergeFrom(v.hero))
	if err != nil {
		return fmt.Errorf("recording the restore: %w", err)
	}
	v.hero = written
	return nil
}
