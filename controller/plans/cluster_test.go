package plans_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/dependents"
	"github.com/bellerophon-io/bellerophon/controller/plans"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// installHorses installs the definition of horses, and waits until they are served.
func installHorses(ctx context.Context, t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := apiextensions.NewForConfig(config)
	must(t, err)
	open := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	made, err := client.CustomResourceDefinitions().Create(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "horses.acme.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: horses.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "horses", Singular: "horse", Kind: "Horse", ListKind: "HorseList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: horses.Version, Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: open},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, client.CustomResourceDefinitions().Delete(context.Background(), made.Name, metav1.DeleteOptions{}))
	})
	watching, err := client.CustomResourceDefinitions().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + made.Name})
	must(t, err)
	defer watching.Stop()
	for event := range watching.ResultChan() {
		if definition, is := event.Object.(*apiextensionsv1.CustomResourceDefinition); is && dependents.IsReady(definition).Ready {
			return
		}
	}
	t.Fatal("the definition is not established")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A plan of three phases stops in the second one, and another manager goes on.
func TestOnTheAPIServerANewManagerResumesAPlan(t *testing.T) {
	namespace := clustertest.Namespace(t)
	config := clustertest.Shared(t).AdminConfig()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	installHorses(ctx, t, config)
	user, err := kubernetes.NewForConfig(config)
	must(t, err)
	objects, err := dynamic.NewForConfig(config)
	must(t, err)
	riders := objects.Resource(horses.WithResource("horses")).Namespace(namespace)

	secrets, err := dependents.NewSet("secrets", dependents.Options{}, dependents.One("password", func(_ context.Context, horse *Horse, _ *dependents.View) (*corev1.Secret, error) {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: horse.Name}}, nil
	}))
	must(t, err)
	labels := map[string]string{"app": "horse"}
	servers, err := dependents.NewSet("servers", dependents.Options{}, dependents.One("servers", func(_ context.Context, horse *Horse, _ *dependents.View) (*appsv1.Deployment, error) {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: horse.Name}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(horse.Spec.Replicas)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "main", Image: "bellerophon-io/bellerophon-server:v1"}}}},
		}}, nil
	}))
	must(t, err)
	var announced, mayMigrate atomic.Int32
	runner, err := plans.NewRunner(planOf, plans.NewPlan("deploy",
		plans.NewPhase("prepare", plans.Apply("secrets", secrets)),
		plans.NewPhase("serve", plans.Apply("servers", servers), plans.Run("migrate", func(context.Context, *Horse, plans.Execution) (plans.Progress, error) {
			return plans.Progress{Done: mayMigrate.Load() > 0, Message: "the database is locked"}, nil
		})),
		plans.NewPhase("announce", plans.Run("announce", func(context.Context, *Horse, plans.Execution) (plans.Progress, error) {
			announced.Add(1)
			return plans.Progress{Done: true}, nil
		}))))
	must(t, err)

	begin := func() (end func()) {
		manager, err := controller.NewManager(config, scheme(), controller.Options{
			Namespaces: []string{namespace}, UserAgent: "horses", Logger: slog.New(slog.DiscardHandler), OnError: func(err error) { t.Log(err) },
		})
		must(t, err)
		client := manager.Client()
		must(t, manager.Add("horses", controller.Typed(client, controller.TypedReconciler[*Horse]{Reconcile: func(ctx context.Context, horse *Horse) (controller.Result, error) {
			_, result, err := runner.Reconcile(ctx, client, horse)
			return result, err
		}}), append(runner.Owns(), controller.For(&Horse{}))...))
		group := lifecycle.New(ctx)
		group.Go("manager", manager.Run)
		return func() {
			group.Stop()
			must(t, group.Wait())
		}
	}
	watching, err := riders.Watch(ctx, metav1.ListOptions{})
	must(t, err)
	defer watching.Stop()
	until := func(want string) *plans.Status {
		t.Helper()
		last := &Horse{}
		for event := range watching.ResultChan() {
			last = &Horse{}
			must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(event.Object.(*unstructured.Unstructured).Object, last))
			if summary(&last.Status.Plan) == want {
				return &last.Status.Plan
			}
		}
		t.Fatalf("the plan is %q, want %q", summary(&last.Status.Plan), want)
		return nil
	}

	end := begin()
	horse := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "acme.io/v1", "kind": "Horse", "metadata": map[string]any{"name": "x"}, "spec": map[string]any{"replicas": int64(1)}}}
	_, err = riders.Create(ctx, horse, metav1.CreateOptions{})
	must(t, err)
	before := until("deploy=IN_PROGRESS secrets=COMPLETE servers=COMPLETE migrate=IN_PROGRESS announce=PENDING")
	end()
	secret, err := user.CoreV1().Secrets(namespace).Get(ctx, "x", metav1.GetOptions{})
	must(t, err)
	mayMigrate.Store(1)
	end = begin()
	after := until("deploy=COMPLETE secrets=COMPLETE servers=COMPLETE migrate=COMPLETE announce=COMPLETE")
	if after.UID != before.UID || !after.StartedAt.Equal(before.StartedAt) || announced.Load() != 1 || after.FinishedAt == nil {
		t.Errorf("before it was %+v, and in the end it is %+v; announced %d times", before, after, announced.Load())
	}
	again, err := user.CoreV1().Secrets(namespace).Get(ctx, "x", metav1.GetOptions{})
	must(t, err)
	if again.ResourceVersion != secret.ResourceVersion {
		t.Error("a step that was complete ran again")
	}
	_, err = riders.Patch(ctx, "x", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{})
	must(t, err)
	next := until("deploy=COMPLETE secrets=COMPLETE servers=COMPLETE migrate=COMPLETE announce=COMPLETE")
	for next.UID == after.UID { // The patch alone is an event too.
		next = until("deploy=COMPLETE secrets=COMPLETE servers=COMPLETE migrate=COMPLETE announce=COMPLETE")
	}
	if deployment, err := user.AppsV1().Deployments(namespace).Get(ctx, "x", metav1.GetOptions{}); err != nil || deployment.Status.AvailableReplicas != 2 {
		t.Errorf("after the change the Deployment is %v: %v", deployment.Status, err)
	}
	end()
}
