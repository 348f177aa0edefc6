package subjects

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/bellerophon-io/bellerophon/faults"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	sheroes      = schema.GroupVersionResource{Group: "stable.simple-bellerophon.io", Version: "v1", Resource: "sheroes"}
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	services     = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	statefulSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
)

// heroes returns what the operators of BellerophonSimple have in common: they differ in their programs. trouble
// are the steps of the operators that report problems.
//
// The workload changes arion before its deletion, and again at the end. So a view of the past has an arion to
// repair that no longer exists. A rollout can be hidden until the workload has ended.
func heroes(b builder, run func(kubeconfig string) *exec.Cmd, trouble ...faults.Step) faults.Subject {
	workload := []faults.Step{
		{Name: "create two objects", Do: createHeroes, Done: all(ready("pegasus", 1), ready("arion", 1))},
		{Name: "change the image and the horse", Do: patch(sheroes, "pegasus", `{"spec":{"image":"example/server:v2","winged_horse_name":"second"}}`),
			Done: all(image("pegasus", "example/server:v2"), horse("pegasus", "second"), ready("pegasus", 1))},
		{Name: "scale out", Do: patch(sheroes, "pegasus", `{"spec":{"replicas":2}}`), Done: ready("pegasus", 2)},
		{Name: "change and delete children", Do: harm, Done: all(repaired, ready("pegasus", 2))},
	}
	workload = append(workload, trouble...)
	workload = append(workload,
		faults.Step{Name: "change the image of the other", Do: patch(sheroes, "arion", `{"spec":{"image":"example/server:v2"}}`),
			Done: all(image("arion", "example/server:v2"), ready("arion", 1))},
		faults.Step{Name: "delete an object", Do: func(ctx context.Context, user *faults.User) error { return user.Delete(ctx, sheroes, "arion") }, Done: gone("arion")},
		faults.Step{Name: "create it again", Do: func(ctx context.Context, user *faults.User) error {
			return user.Create(ctx, sheroes, hero("arion", "example/server:v3"))
		}, Done: all(image("arion", "example/server:v3"), ready("arion", 1))},
		faults.Step{Name: "change its image and its horse", Do: patch(sheroes, "arion", `{"spec":{"image":"example/server:v4","winged_horse_name":"second"}}`),
			Done: all(image("arion", "example/server:v4"), horse("arion", "second"), ready("arion", 1))},
	)
	return faults.Subject{
		Command:     run,
		Definitions: []string{filepath.Join(b.root, "charts", "bellerophon-operator", "crds")},
		Kinds:       []schema.GroupVersionResource{sheroes, configMaps, services, statefulSets},
		Workload:    workload,
	}
}

func bellerophon(ctx context.Context, b builder) (faults.Subject, error) {
	program, err := b.program(ctx, "bellerophon", "./bellerophon-operator")
	return heroes(b, func(kubeconfig string) *exec.Cmd {
		return command(kubeconfig, program, "operator", "--metrics-address=", "--health-address=", "--log-level=debug")
	}, faults.Step{
		Name: "ask for an image that no node can pull", Do: patch(sheroes, "arion", `{"spec":{"image":"registry.invalid/server:v1"}}`), Done: degraded("arion"),
	}), err
}

func controllerRuntime(ctx context.Context, b builder) (faults.Subject, error) {
	program, err := b.program(ctx, "bench/peers/controller-runtime", ".", "GOWORK=off")
	return heroes(b, func(kubeconfig string) *exec.Cmd { return command(kubeconfig, program) }), err
}

// tutorial builds the operator in the style of the tutorial.
func tutorial(ctx context.Context, b builder) (faults.Subject, error) {
	const folder = "bench/peers/tutorial"
	_, err := b.run(ctx, folder, nil, "mvn", "-q", "-B", "package", "-DskipTests")
	jar := filepath.Join(b.root, filepath.FromSlash(folder), "target", "tutorial.jar")
	return heroes(b, func(kubeconfig string) *exec.Cmd { return command(kubeconfig, "java", "-jar", jar) }), err
}

func hero(name, image string) map[string]any {
	return map[string]any{
		"apiVersion": sheroes.GroupVersion().String(), "kind": "BellerophonSimple", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"winged_horse_name": name, "image": image, "replicas": int64(1)},
	}
}

func createHeroes(ctx context.Context, user *faults.User) error {
	return errors.Join(user.Create(ctx, sheroes, hero("pegasus", "example/server:v1")), user.Create(ctx, sheroes, hero("arion", "example/server:v1")))
}

// harm does to the children what the operator has to repair.
func harm(ctx context.Context, user *faults.User) error {
	return errors.Join(
		user.Patch(ctx, configMaps, "pegasus", `{"data":null}`),
		user.Delete(ctx, services, "pegasus"),
		user.Patch(ctx, statefulSets, "pegasus", `{"spec":{"replicas":5}}`),
	)
}

func patch(resource schema.GroupVersionResource, name, change string) func(context.Context, *faults.User) error {
	return func(ctx context.Context, user *faults.User) error { return user.Patch(ctx, resource, name, change) }
}

func all(checks ...func(faults.State) error) func(faults.State) error {
	return func(seen faults.State) error {
		for _, check := range checks {
			if err := check(seen); err != nil {
				return err
			}
		}
		return nil
	}
}

// ready checks that an object is Ready in its current generation and has no problem, with all of its children
// and a selector for autoscalers.
func ready(name string, servers int64) func(faults.State) error {
	return func(seen faults.State) error {
		hero := seen.Get(sheroes, name)
		if hero == nil {
			return fmt.Errorf("%s does not exist", name)
		}
		for _, kind := range []schema.GroupVersionResource{configMaps, services, statefulSets} {
			if child := seen.Get(kind, name); child == nil || !owns(hero, child) {
				return fmt.Errorf("%s has no %s", name, kind.Resource)
			}
		}
		observed, _, _ := unstructured.NestedInt64(hero.Object, "status", "observedGeneration")
		is, _, _ := unstructured.NestedInt64(hero.Object, "status", "readyReplicas")
		if observed != hero.GetGeneration() || is != servers || condition(hero, "Ready") != "True" || condition(hero, "Degraded") == "True" {
			return fmt.Errorf("%s has %d ready servers, generation %d of %d, Ready is %q, and Degraded is %q",
				name, is, observed, hero.GetGeneration(), condition(hero, "Ready"), condition(hero, "Degraded"))
		}
		if selector, _, _ := unstructured.NestedString(hero.Object, "status", "selector"); selector == "" {
			return fmt.Errorf("%s has no selector", name)
		}
		return nil
	}
}

// degraded checks that an object reports a problem in its current generation.
func degraded(name string) func(faults.State) error {
	return func(seen faults.State) error {
		hero := seen.Get(sheroes, name)
		if hero == nil {
			return fmt.Errorf("%s does not exist", name)
		}
		observed, _, _ := unstructured.NestedInt64(hero.Object, "status", "observedGeneration")
		if observed != hero.GetGeneration() || condition(hero, "Degraded") != "True" {
			return fmt.Errorf("%s has the generation %d of %d, and Degraded is %q", name, observed, hero.GetGeneration(), condition(hero, "Degraded"))
		}
		return nil
	}
}

// horse checks that the settings of an object name a horse.
func horse(name, want string) func(faults.State) error {
	return func(seen faults.State) error {
		config := seen.Get(configMaps, name)
		if config == nil {
			return fmt.Errorf("%s has no settings", name)
		}
		if is, _, _ := unstructured.NestedString(config.Object, "data", "winged_horse_name"); is != want {
			return fmt.Errorf("the settings of %s name the horse %q, want %q", name, is, want)
		}
		return nil
	}
}

func owns(owner, child *unstructured.Unstructured) bool {
	for _, reference := range child.GetOwnerReferences() {
		if reference.UID == owner.GetUID() {
			return true
		}
	}
	return false
}

func condition(object *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range conditions {
		if each, is := each.(map[string]any); is && each["type"] == kind {
			status, _ := each["status"].(string)
			return status
		}
	}
	return ""
}

func image(name, want string) func(faults.State) error {
	return func(seen faults.State) error {
		servers := seen.Get(statefulSets, name)
		if servers == nil {
			return fmt.Errorf("%s has no servers", name)
		}
		containers, _, _ := unstructured.NestedSlice(servers.Object, "spec", "template", "spec", "containers")
		if len(containers) != 1 || containers[0].(map[string]any)["image"] != want {
			return fmt.Errorf("the servers of %s do not run %s", name, want)
		}
		return nil
	}
}

func repaired(seen faults.State) error {
	config, servers := seen.Get(configMaps, "pegasus"), seen.Get(statefulSets, "pegasus")
	if config == nil || seen.Get(services, "pegasus") == nil || servers == nil {
		return errors.New("a child does not exist")
	}
	data, _, _ := unstructured.NestedMap(config.Object, "data")
	replicas, _, _ := unstructured.NestedInt64(servers.Object, "spec", "replicas")
	if len(data) == 0 || replicas != 2 {
		return fmt.Errorf("the ConfigMap has %d entries, and %d servers are wanted", len(data), replicas)
	}
	return nil
}

func gone(name string) func(faults.State) error {
	return func(seen faults.State) error {
		for _, kind := range []schema.GroupVersionResource{sheroes, configMaps, services, statefulSets} {
			if seen.Get(kind, name) != nil {
				return fmt.Errorf("%s still has %s", name, kind.Resource)
			}
		}
		return nil
	}
}
