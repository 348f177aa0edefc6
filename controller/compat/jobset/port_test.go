package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"
)

// field is a place where JobSets run: the same namespace for one runtime after the other.
type field struct {
	t         *testing.T
	namespace string
	client    client.Client
}

func newField(t *testing.T) *field {
	t.Helper()
	f := &field{t: t, namespace: clustertest.Namespace(t)}
	var err error
	f.client, err = client.New(clustertest.Shared(t).AdminConfig(), client.Options{Scheme: scheme.Scheme})
	f.must(err)
	f.install()
	return f
}

func (f *field) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// wait waits until a condition holds.
func (f *field) wait(what string, holds func() (bool, string)) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Duration(*load) * 6 * time.Second); ; <-time.After(20 * time.Millisecond) {
		done, state := holds()
		if done {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: %s", what, state)
		}
	}
}

// module returns the folder of the module sigs.k8s.io/jobset.
func (f *field) module() string {
	f.t.Helper()
	command := exec.CommandContext(f.t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/jobset")
	command.Env = append(command.Environ(), "GOWORK=off")
	folder, err := command.Output()
	f.must(err)
	return strings.TrimSpace(string(folder))
}

// install installs the definitions of the module sigs.k8s.io/jobset, from its own files.
func (f *field) install() {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(f.module(), "config/components/crd/bases/*.yaml"))
	f.must(err)
	if len(files) == 0 {
		f.t.Fatal("the module has no definitions")
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		f.must(err)
		definition := &unstructured.Unstructured{}
		f.must(yaml.Unmarshal(content, &definition.Object))
		f.must(client.IgnoreAlreadyExists(f.client.Create(f.t.Context(), definition)))
	}
	f.wait("JobSets are not served", func() (bool, string) {
		err := f.client.List(f.t.Context(), &jobset.JobSetList{})
		return err == nil, fmt.Sprint(err)
	})
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
func (f *field) jobSets() (all []*jobset.JobSet) {
	for i := range *load {
		for _, form := range slices.Sorted(maps.Keys(ends)) {
			made := &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: fmt.Sprintf("%s-%d", form, i), Labels: map[string]string{"form": form}}}
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

// outcome is what a runtime cost.
type outcome struct {
	requests map[string]int
	memory   string // the largest resident set
	cpu      time.Duration
	elapsed  time.Duration
	state    map[string]string // each object, without what differs from one run to the next
}

// run takes the load through the operator by a runtime, in a process of its own.
func (f *field) run(by string) (result outcome) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Minute)
	defer cancel()
	operator := exec.CommandContext(ctx, os.Args[0])
	operator.Env = append(os.Environ(), runtimeVariable+"="+by, namespaceVariable+"="+f.namespace, "KUBECONFIG="+clustertest.Shared(f.t).Kubeconfig())
	var printed, trouble bytes.Buffer
	operator.Stdout, operator.Stderr = &printed, &trouble
	f.must(operator.Start())
	begun := time.Now()
	stop := func() {
		f.must(operator.Process.Signal(syscall.SIGTERM))
		if err := operator.Wait(); err != nil {
			f.t.Fatalf("the operator on %s ends with %v\n%s", by, err, trouble.String())
		}
	}
	all := f.jobSets()
	for _, made := range all {
		f.must(f.client.Create(ctx, made))
	}
	f.wait("the JobSets do not end", f.ended)
	for i, made := range all {
		if made.Labels["form"] == "suspended" && i < len(all)/2 {
			f.must(f.client.Patch(ctx, made, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"form":"plain"}},"spec":{"suspend":false}}`))))
		}
	}
	f.wait("the resumed JobSets do not end", f.ended)
	result.elapsed = time.Since(begun)
	result.state = f.state()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", operator.Process.Pid))
	f.must(err)
	for line := range strings.Lines(string(status)) {
		if peak, is := strings.CutPrefix(line, "VmHWM:"); is {
			result.memory = strings.TrimSpace(peak)
		}
	}
	stop()
	result.cpu = operator.ProcessState.UserTime() + operator.ProcessState.SystemTime()
	f.must(json.Unmarshal(printed.Bytes(), &result.requests))
	f.clear()
	return result
}

// ended reports whether each JobSet has come to its end, and describes one that has not.
func (f *field) ended() (bool, string) {
	list := &jobset.JobSetList{}
	f.must(f.client.List(f.t.Context(), list, client.InNamespace(f.namespace)))
	for i := range list.Items {
		if !meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, ends[list.Items[i].Labels["form"]]) {
			return false, fmt.Sprintf("%s has %v", list.Items[i].Name, list.Items[i].Status)
		}
	}
	return true, ""
}

// clear deletes everything, and waits until it is gone.
func (f *field) clear() {
	for _, object := range []client.Object{&jobset.JobSet{}, &batchv1.Job{}, &corev1.Service{}, &corev1.Pod{}} {
		f.must(f.client.DeleteAllOf(f.t.Context(), object, client.InNamespace(f.namespace), client.PropagationPolicy(metav1.DeletePropagationBackground), client.GracePeriodSeconds(0)))
	}
	f.wait("objects remain", func() (bool, string) { left := f.state(); return len(left) == 0, fmt.Sprint(len(left), left) })
}

// differing are the uids and times of an object.
var differing = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9-]{10}T[0-9:.]+Z`)

// state returns what the operator has made of the load.
func (f *field) state() map[string]string {
	state := map[string]string{}
	for _, list := range []client.ObjectList{&jobset.JobSetList{}, &batchv1.JobList{}, &corev1.ServiceList{}} {
		if err := f.client.List(f.t.Context(), list, client.InNamespace(f.namespace)); !apierrors.IsNotFound(err) {
			f.must(err)
		}
		f.must(meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			object.SetResourceVersion("")
			slices.SortFunc(object.GetManagedFields(), func(a, b metav1.ManagedFieldsEntry) int { // The API server sorts them by time, which differs between two runs.
				return strings.Compare(a.Manager+a.Subresource, b.Manager+b.Subresource)
			})
			encoded, err := json.MarshalIndent(object, "", " ")
			state[fmt.Sprintf("%T %s", object, object.GetName())] = string(differing.ReplaceAll(encoded, []byte("…")))
			return err
		}))
	}
	return state
}

// TestTheOperatorEndsInTheSameStateOnBothRuntimes runs the same load on both, and prints what each costs.
func TestTheOperatorEndsInTheSameStateOnBothRuntimes(t *testing.T) {
	f := newField(t)
	results := map[string]outcome{}
	for _, by := range []string{controllerRuntime, bellerophon} {
		results[by] = f.run(by)
	}
	ours, theirs := results[bellerophon], results[controllerRuntime]
	for name, want := range theirs.state {
		if difference := cmp.Diff(want, ours.state[name]); difference != "" {
			t.Errorf("%s differs, - on controller-runtime and + on Bellerophon:\n%s", name, difference)
		}
	}
	// Each form has a JobSet, a Service and its Jobs.
	if want := *load * (2*(2+4) + 2*(2+1)); len(ours.state) != want || len(theirs.state) != want {
		t.Errorf("there are %d objects on Bellerophon, and %d on controller-runtime, want %d", len(ours.state), len(theirs.state), want)
	}
	t.Logf("%-20s %10s %12s %8s %8s  %s", "runtime", "CPU", "peak memory", "writes", "reads", "all requests")
	for _, by := range []string{controllerRuntime, bellerophon} {
		r := results[by]
		t.Logf("%-20s %10v %12s %8d %8d  %v in %v", by, r.cpu.Round(time.Millisecond), r.memory, r.requests["write"], r.requests["read"], r.requests, r.elapsed.Round(time.Millisecond))
	}
}
