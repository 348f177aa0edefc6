package subjects

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/bellerophon-io/bellerophon/faults"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	quotas = schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}
)

// several builds the example with two controllers in one manager. Only one of them has work here: the other
// one copies a Secret of another namespace, which all trials would share.
func several(ctx context.Context, b builder) (faults.Subject, error) {
	program, err := b.program(ctx, ".", "./controller/examples/several")
	label := func(value string) func(context.Context, *faults.User) error {
		return func(ctx context.Context, user *faults.User) error {
			return user.PatchNamespace(ctx, fmt.Sprintf(`{"metadata":{"labels":{"team":%s}}}`, value))
		}
	}
	drift := func(ctx context.Context, user *faults.User) error {
		return user.Patch(ctx, quotas, "team", `{"spec":{"hard":{"pods":"1"}}}`)
	}
	remove := func(ctx context.Context, user *faults.User) error { return user.Delete(ctx, quotas, "team") }
	return faults.Subject{
		Command: func(kubeconfig string) *exec.Cmd { return command(kubeconfig, program) },
		Kinds:   []schema.GroupVersionResource{quotas},
		Workload: []faults.Step{
			{Name: "give the namespace to a team", Do: label(`"red"`), Done: hasQuota},
			{Name: "change the quota", Do: drift, Done: hasQuota},
			{Name: "delete the quota", Do: remove, Done: hasQuota},
			{Name: "give it to another team", Do: label(`"blue"`), Done: hasQuota},
			{Name: "change the quota again", Do: drift, Done: hasQuota},
		},
	}, err
}

func hasQuota(seen faults.State) error {
	quota := seen.Get(quotas, "team")
	if quota == nil {
		return errors.New("there is no quota")
	}
	pods, _, _ := unstructured.NestedString(quota.Object, "spec", "hard", "pods")
	counted, _, _ := unstructured.NestedString(quota.Object, "status", "hard", "pods")
	if pods != "100" || counted != "100" {
		return fmt.Errorf("the quota allows %q pods, and its status says %q", pods, counted)
	}
	return nil
}

var (
	jobSets = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
	jobs    = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
)

// jobSet builds the ported operator of JobSet.
func jobSet(ctx context.Context, b builder) (faults.Subject, error) {
	const module = "controller/compat/jobset"
	program, err := b.program(ctx, module, ".", "GOWORK=off")
	if err != nil {
		return faults.Subject{}, err
	}
	source, err := b.run(ctx, module, []string{"GOWORK=off"}, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/jobset")
	suspend := func(value bool) func(context.Context, *faults.User) error {
		return patch(jobSets, "fleet", fmt.Sprintf(`{"spec":{"suspend":%t}}`, value))
	}
	return faults.Subject{
		Command:     func(kubeconfig string) *exec.Cmd { return command(kubeconfig, program) },
		Definitions: []string{source + "/config/components/crd/bases"},
		Kinds:       []schema.GroupVersionResource{jobSets, jobs, services},
		Workload: []faults.Step{
			{Name: "create a suspended set", Do: func(ctx context.Context, user *faults.User) error { return user.Create(ctx, jobSets, fleet()) }, Done: inState("Suspended")},
			{Name: "delete a job", Do: func(ctx context.Context, user *faults.User) error { return user.Delete(ctx, jobs, "fleet-leader-0") }, Done: inState("Suspended")},
			{Name: "delete the service", Do: func(ctx context.Context, user *faults.User) error { return user.Delete(ctx, services, "fleet") }, Done: inState("Suspended")},
			{Name: "resume it", Do: suspend(false), Done: inState("Completed")},
		},
	}, err
}

func fleet() map[string]any {
	replicated := func(name string) map[string]any {
		return map[string]any{"name": name, "replicas": int64(1), "template": map[string]any{"spec": map[string]any{
			"parallelism": int64(1), "completions": int64(1), "completionMode": "Indexed",
			"template": map[string]any{"spec": map[string]any{
				"restartPolicy": "Never", "containers": []any{map[string]any{"name": "main", "image": "example/main"}},
			}},
		}}}
	}
	return map[string]any{
		"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": map[string]any{"name": "fleet"},
		"spec": map[string]any{
			"suspend": true, "network": map[string]any{"enableDNSHostnames": true, "publishNotReadyAddresses": true},
			"successPolicy": map[string]any{"operator": "All"}, "startupPolicy": map[string]any{"startupPolicyOrder": "AnyOrder"},
			"replicatedJobs": []any{replicated("leader"), replicated("worker")},
		},
	}
}

// inState checks the condition of the set, its jobs and its service.
func inState(kind string) func(faults.State) error {
	const wanted = 2
	return func(seen faults.State) error {
		set := seen.Get(jobSets, "fleet")
		if set == nil || condition(set, kind) != "True" {
			return fmt.Errorf("the set is not %s", kind)
		}
		held := 0
		for key, job := range seen {
			if strings.HasPrefix(key, "jobs.batch/") && (kind != "Completed" || condition(job, "Complete") == "True") {
				held++
			}
		}
		if held != wanted || seen.Get(services, "fleet") == nil {
			return fmt.Errorf("there are %d jobs of %d, or there is no service", held, wanted)
		}
		return nil
	}
}
