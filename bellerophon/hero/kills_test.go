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
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/faults"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
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

// daysOfAHero is the work of the kills: first start, more members, a rollout, fewer members. At the end there is one
// member, so that every run ends with the same leader.
func daysOfAHero(hosts string) faults.Subject {
	patch := func(change string) func(context.Context, *faults.User) error {
		return func(ctx context.Context, user *faults.User) error {
			return user.Patch(ctx, heroes, "bellerophon", change)
		}
	}
	return faults.Subject{
		Name: "heroes",
		Command: func(kubeconfig string) *exec.Cmd {
			command := exec.Command(os.Args[0])
			command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, asOperator+"="+hosts)
			return command
		},
		Definitions: []string{filepath.Join("..", "..", "charts", "bellerophon-operator", "files", "heroes", "stable.bellerophon.io_heroes.yaml")},
		Kinds: []schema.GroupVersionResource{
			heroes, appsv1.SchemeGroupVersion.WithResource("statefulsets"), corev1.SchemeGroupVersion.WithResource("services"),
			corev1.SchemeGroupVersion.WithResource("configmaps"), corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
			policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"),
		},
		Workload: []faults.Step{
			{Name: "create a hero of one member", Do: func(ctx context.Context, user *faults.User) error {
				return user.Create(ctx, heroes, map[string]any{
					"apiVersion": v1.GroupVersion.String(), "kind": "Bellerophon", "metadata": map[string]any{"name": "bellerophon"},
					"spec": map[string]any{"replicas": int64(1)},
				})
			}, Done: finished(1, always)},
			{Name: "go to three members", Do: patch(`{"spec":{"replicas":3}}`), Done: finished(3, always)},
			{Name: "change a setting", Do: patch(`{"spec":{"config":{"log-level":"debug"}}}`), Done: finished(3, func(hero *v1.Bellerophon) bool {
				return hero.Status.CurrentRevision == hero.Status.TargetRevision && len(hero.Status.Members) == 3
			})},
			{Name: "go to one member", Do: patch(`{"spec":{"replicas":1}}`), Done: finished(1, always)},
		},
	}
}

// TestTheOperatorIsKilledAtEachWriteOfItsDays kills the operator's process with SIGKILL at writes to the API server:
// before, after its commit without an answer, and after the answer.
func TestTheOperatorIsKilledAtEachWriteOfItsDays(t *testing.T) {
	chosen, err := regexp.Compile(*killOnly)
	if err != nil {
		t.Fatalf("-kill-cases: %v", err)
	}
	config := clustertest.Shared(t).AdminConfig()
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	node := newKubelet(t, core, "")
	report, err := faults.Kills(t.Context(), config, daysOfAHero(node.hosts()), faults.Options{
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
