package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/compat/internal/porttest"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// jobSetModule has the definitions and the suite of JobSet.
const jobSetModule = "sigs.k8s.io/jobset"

func TestMain(m *testing.M) {
	porttest.Main(m, options(""), setUpControllers)
}

// field is a place where JobSets run.
type field struct{ *porttest.Field }

func newField(t *testing.T) field {
	t.Helper()
	f := field{porttest.NewField(t)}
	f.Patience = time.Duration(*load) * 6 * time.Second
	f.State = []client.ObjectList{&jobset.JobSetList{}, &batchv1.JobList{}, &corev1.ServiceList{}}
	f.Cleared = []client.Object{&jobset.JobSet{}, &batchv1.Job{}, &corev1.Service{}, &corev1.Pod{}}
	f.Install(jobSetModule, "config/components/crd/bases/*.yaml", &jobset.JobSetList{})
	return f
}

var load = flag.Int("load", 5, "the number of JobSets of each of the four forms")

// ends are the conditions in which the JobSets of each form end. All forms end in one way only, whatever the
// speed of the cluster: the simulated node completes the pods at once.
var ends = map[string]string{
	"plain":     "Completed",
	"suspended": "Suspended",               // until they are resumed
	"waiting":   "StartupPolicyInProgress", // their leader's image cannot be pulled
	"failing":   "Failed",                  // their leader's image cannot be pulled within a second, and they restart once
}

// jobSets returns the JobSets of the load, with the defaults of JobSet's webhook, which is not served here.
func (f field) jobSets() (all []*jobset.JobSet) {
	for i := range *load {
		for _, form := range slices.Sorted(maps.Keys(ends)) {
			made := &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: fmt.Sprintf("%s-%d", form, i), Labels: map[string]string{"form": form}}}
			made.Spec.Network = &jobset.Network{EnableDNSHostnames: new(true), PublishNotReadyAddresses: new(true)}
			made.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll}
			made.Spec.StartupPolicy = &jobset.StartupPolicy{StartupPolicyOrder: jobset.AnyOrder}
			leader, workers := replicated("leader", 1), replicated("workers", 3)
			made.Spec.ReplicatedJobs = []jobset.ReplicatedJob{leader, workers}
			switch form {
			case "suspended":
				made.Spec.Suspend = new(true)
			case "waiting":
				made.Spec.StartupPolicy.StartupPolicyOrder = jobset.InOrder
				leader.Template.Spec.Template.Spec.Containers[0].Image = "none.invalid/none"
			case "failing":
				leader.Template.Spec.ActiveDeadlineSeconds = new(int64(1))
				leader.Template.Spec.Template.Spec.Containers[0].Image = "none.invalid/none"
				made.Spec.ReplicatedJobs = []jobset.ReplicatedJob{leader}
				made.Spec.FailurePolicy = &jobset.FailurePolicy{MaxRestarts: 1}
			}
			all = append(all, made)
		}
	}
	return all
}

// replicated returns Jobs of two pods each.
func replicated(name string, replicas int32) jobset.ReplicatedJob {
	mode := batchv1.IndexedCompletion
	return jobset.ReplicatedJob{
		Name: name, Replicas: replicas,
		Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
			CompletionMode: &mode, Parallelism: new(int32(2)), Completions: new(int32(2)), BackoffLimit: new(int32(0)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "one", Image: "one"}},
			}},
		}},
	}
}

// work creates the load and waits for its end, resumes half of what is suspended, and waits again.
func (f field) work() {
	ctx, all := f.T.Context(), f.jobSets()
	for _, made := range all {
		f.Must(f.Client.Create(ctx, made))
	}
	f.Wait("the JobSets do not end", f.ended)
	for i, made := range all {
		if made.Labels["form"] == "suspended" && i < len(all)/2 {
			f.Must(f.Client.Patch(ctx, made, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"form":"plain"}},"spec":{"suspend":false}}`))))
		}
	}
	f.Wait("the resumed JobSets do not end", f.ended)
}

// ended reports whether each JobSet has come to its end, and describes one that has not.
func (f field) ended() (bool, string) {
	list := &jobset.JobSetList{}
	f.Must(f.Client.List(f.T.Context(), list, client.InNamespace(f.Namespace)))
	for i := range list.Items {
		if !meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, ends[list.Items[i].Labels["form"]]) {
			return false, fmt.Sprintf("%s has %v", list.Items[i].Name, list.Items[i].Status)
		}
	}
	return true, ""
}

// TestTheOperatorEndsInTheSameStateOnBothRuntimes runs the same load on both, and prints what each costs.
func TestTheOperatorEndsInTheSameStateOnBothRuntimes(t *testing.T) {
	f := newField(t)
	objects := f.Compare(f.work)
	// Each form has a JobSet, a Service and its Jobs.
	if want := *load * (2*(2+4) + 2*(2+1)); objects != want {
		t.Errorf("there are %d objects, want %d", objects, want)
	}
}

// setUpControllers adds JobSet's controllers without its webhooks.
func setUpControllers(mgr ctrl.Manager) error { return setUp(context.Background(), mgr, false) }

func TestARecordingOfTheOperatorIsReplayedAndDecidesTheSame(t *testing.T) {
	f := newField(t)
	replayed := f.Replay(f.work, options(""), setUpControllers)
	if want := *load * len(ends); replayed.Attempts < want { // Each JobSet has at least one attempt.
		t.Errorf("the replay has %d attempts, want at least %d", replayed.Attempts, want)
	}
}
