package hero

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/faults"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

var (
	killSample = flag.Int("kill-sample", 3, "at how many writes the operator is killed; 0 is all")
	killOnly   = flag.String("kill-cases", "", "pattern of the names of the cases that run")
	killFolder = flag.String("kill-folder", "", "the folder with the state of slices: a run goes on where the last one ended")
	killLimit  = flag.Duration("kill-limit", 0, "end the kills after this time; 0 is never")
)

// finished returns a condition: the hero has its desired state with a number of members.
func finished(members int32, holds func(*v1.Bellerophon) bool) func(faults.State) error {
	return func(seen faults.State) error {
		object := seen.Get(heroes, "bellerophon")
		if object == nil {
			return errors.New("there is no hero")
		}
		hero := &v1.Bellerophon{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, hero); err != nil {
			return err
		}
		if hero.Status.Phase != v1.PhaseRunning || hero.Status.ReadyReplicas != members || hero.Status.ObservedGeneration != hero.Generation || !holds(hero) {
			return fmt.Errorf("generation %d has the status %+v", hero.Generation, hero.Status)
		}
		return nil
	}
}

func always(*v1.Bellerophon) bool { return true }

// daysOfAHero is the work of the kills: first start, more members, larger volumes, a rollout, fewer members. At the end there is one
// member, so that every run ends with the same leader.
func daysOfAHero(hosts string) faults.Subject {
	return heroSubject("heroes", hosts,
		create(map[string]any{"replicas": int64(1)}, 1, always),
		faults.Step{Name: "go to three members", Do: patch(`{"spec":{"replicas":3}}`), Done: finished(3, always)},
		faults.Step{Name: "let volumes grow", Do: patch(`{"spec":{"storage":{"size":"2Gi"}}}`), Done: func(seen faults.State) error {
			if object := seen.Get(heroes, "bellerophon"); object != nil && slices.Contains(object.GetFinalizers(), growthFinalizer) {
				return errors.New("the StatefulSet is replaced")
			}
			set := seen.Get(sets, "bellerophon")
			if set == nil {
				return errors.New("there is no StatefulSet")
			}
			if claims, _, _ := unstructured.NestedSlice(set.Object, "spec", "volumeClaimTemplates"); !strings.Contains(fmt.Sprint(claims), "storage:2Gi") {
				return fmt.Errorf("its claims are %v", claims)
			}
			return finished(3, always)(seen)
		}},
		faults.Step{Name: "change a setting", Do: patch(`{"spec":{"config":{"log-level":"debug"}}}`), Done: finished(3, func(hero *v1.Bellerophon) bool {
			return hero.Status.CurrentRevision == hero.Status.TargetRevision && len(hero.Status.Members) == 3
		})},
		faults.Step{Name: "go to one member", Do: patch(`{"spec":{"replicas":1}}`), Done: finished(1, always)},
	)
}

// lifeOfAHero is the work of the kills with backups: a hero begins with a backup, takes backups, and is deleted after a
// last one. The pods of Jobs are simulated and succeed.
func lifeOfAHero(hosts string) faults.Subject {
	volume := map[string]any{"volumeClaimName": "backups"}
	restored := func(hero *v1.Bellerophon) bool { return hero.Status.Restored }
	begin := create(map[string]any{
		"replicas": int64(1), "restore": volume, "backup": volume, "storage": map[string]any{"retention": "BackupThenDelete"},
	}, 1, restored)
	hero := begin.Do
	begin.Do = func(ctx context.Context, user *faults.User) error {
		return errors.Join(user.Create(ctx, claims, map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": "backups"}, "spec": map[string]any{
				"storageClassName": "kwok-volume", "accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "64Mi"}},
			},
		}), hero(ctx, user))
	}
	return heroSubject("life of a hero", hosts, begin,
		faults.Step{Name: "give the backups a schedule", Do: patch(`{"spec":{"backup":{"schedule":"0 3 1 1 *"}}}`), Done: func(seen faults.State) error {
			cron := seen.Get(cronJobs, "bellerophon-backup")
			if cron == nil {
				return errors.New("there is no CronJob")
			}
			if schedule, _, _ := unstructured.NestedString(cron.Object, "spec", "schedule"); schedule != "0 3 1 1 *" {
				return fmt.Errorf("the schedule is %s", schedule)
			}
			return finished(1, always)(seen)
		}},
		faults.Step{Name: "delete the hero", Do: func(ctx context.Context, user *faults.User) error { return user.Delete(ctx, heroes, "bellerophon") }, Done: func(seen faults.State) error {
			for _, left := range []struct {
				kind schema.GroupVersionResource
				name string
			}{{heroes, "bellerophon"}, {sets, "bellerophon"}, {claims, "data-bellerophon-0"}, {jobs, "bellerophon-last-backup"}, {cronJobs, "bellerophon-backup"}} {
				if seen.Get(left.kind, left.name) != nil {
					return fmt.Errorf("%s %s is there", left.kind.Resource, left.name)
				}
			}
			return nil
		}},
	)
}

var (
	sets     = appsv1.SchemeGroupVersion.WithResource("statefulsets")
	claims   = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	jobs     = batchv1.SchemeGroupVersion.WithResource("jobs")
	cronJobs = batchv1.SchemeGroupVersion.WithResource("cronjobs")
)

func create(spec map[string]any, members int32, holds func(*v1.Bellerophon) bool) faults.Step {
	return faults.Step{Name: "create a hero", Do: func(ctx context.Context, user *faults.User) error {
		return user.Create(ctx, heroes, map[string]any{
			"apiVersion": v1.GroupVersion.String(), "kind": "Bellerophon", "metadata": map[string]any{"name": "bellerophon"}, "spec": spec,
		})
	}, Done: finished(members, holds)}
}

func patch(change string) func(context.Context, *faults.User) error {
	return func(ctx context.Context, user *faults.User) error {
		return user.Patch(ctx, heroes, "bellerophon", change)
	}
}

func heroSubject(name, hosts string, workload ...faults.Step) faults.Subject {
	return faults.Subject{
		Name: name,
		Command: func(kubeconfig string) *exec.Cmd {
			command := exec.Command(os.Args[0])
			command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, asOperator+"="+hosts)
			return command
		},
		Definitions: []string{filepath.Join("..", "..", "charts", "bellerophon-operator", "files", "heroes", "stable.bellerophon.io_heroes.yaml")},
		Kinds: []schema.GroupVersionResource{
			heroes, sets, corev1.SchemeGroupVersion.WithResource("services"), corev1.SchemeGroupVersion.WithResource("configmaps"),
			claims, policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), cronJobs, jobs,
		},
		Workload: workload,
	}
}

// TestTheOperatorIsKilledAtEachWriteOfItsDays kills the operator's process with SIGKILL at writes to the API server:
// before, after its commit without an answer, and after the answer.
func TestTheOperatorIsKilledAtEachWriteOfItsDays(t *testing.T) { killAtWritesOf(t, daysOfAHero) }

// TestTheOperatorIsKilledAtEachWriteOfALife is the same for a restore, for backups and for a deletion.
func TestTheOperatorIsKilledAtEachWriteOfALife(t *testing.T) { killAtWritesOf(t, lifeOfAHero) }

func killAtWritesOf(t *testing.T, work func(hosts string) faults.Subject) {
	chosen, err := regexp.Compile(*killOnly)
	if err != nil {
		t.Fatalf("-kill-cases: %v", err)
	}
	config := clustertest.Shared(t).AdminConfig()
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	letVolumesGrow(t, core)
	node := newKubelet(t, core, "")
	report, err := faults.Kills(t.Context(), config, work(node.hosts()), faults.Options{
		Sample: *killSample, Only: chosen, Folder: *killFolder, Limit: *killLimit, Quiet: 3 * time.Second, Patience: 90 * time.Second,
		Progress: func(line string) { t.Log(time.Now().Format(time.TimeOnly), line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range report.Failures() {
		t.Error(failure)
	}
	if report.Left > 0 {
		t.Logf("%d cases are left for the next slice", report.Left)
	}
	if err := faults.WriteGoals(os.Stdout, report); err != nil {
		t.Error(err)
	}
}
