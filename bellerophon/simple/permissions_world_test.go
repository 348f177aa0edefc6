package simple_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bellerophon/render"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// refusedNamespace is where the operator lacks a permission on purpose.
const refusedNamespace = "refused"

// auditedWorld is a cluster of its own, whose API server logs the requests of the operator. The API
// server also checks who may block a deletion.
type auditedWorld struct {
	*world
	cluster *localcluster.Cluster
	account *rest.Config
	metrics string // the address
}

func newAuditedWorld(t *testing.T, file string, values map[string]any) *auditedWorld {
	t.Helper()
	cluster := must(localcluster.Start(t.Context(), localcluster.Options{
		AuditLog: file, AuditUsers: []string{operatorUser},
		AdmissionPlugins: []string{"OwnerReferencesPermissionEnforcement"},
	}))(t)
	t.Cleanup(func() {
		_ = cluster.Stop() // It does nothing after stop.
		if t.Failed() {
			t.Logf("the API server refused these requests:\n%s", strings.Join(auditedIn(t, file).refused, "\n"))
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, namespace: "team", config: cluster.AdminConfig()}
	w.core = must(kubernetes.NewForConfig(w.config))(t)
	w.any = must(dynamic.NewForConfig(w.config))(t)
	installed := must(install.Operator(ctx, w.config, install.Options{}))(t)
	w.installRest(values)
	w.enter("team")
	return &auditedWorld{world: w, cluster: cluster, account: must(installed.Config(t.Context(), w.config))(t)}
}

// installRest creates what the chart has with some values, beyond what `bellerophon up` installs.
func (w *world) installRest(values map[string]any) {
	w.t.Helper()
	for _, object := range must(render.Operator(install.Release, install.Namespace, values))(w.t).Without("Deployment").Objects {
		kind := object.GroupVersionKind()
		place := w.any.Resource(kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s")).Namespace(object.GetNamespace())
		if kind.Kind == "PodDisruptionBudget" {
			continue // There are no pods.
		}
		if _, err := place.Create(w.ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			w.t.Fatal(err)
		}
	}
}

// enter creates a namespace, and makes it the one of the world.
func (w *world) enter(namespace string) {
	w.t.Helper()
	w.namespace = namespace
	w.heroes = w.any.Resource(sheroes).Namespace(namespace)
	must(w.core.CoreV1().Namespaces().Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))(w.t)
	exists := func(object *unstructured.Unstructured) bool { return object != nil }
	w.await(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, "default", "created", exists)
}

// start starts an operator with protected metrics for some namespaces, or for all.
func (w *auditedWorld) start(namespaces ...string) {
	w.t.Helper()
	addresses := make(chan string, 1)
	w.operator = w.startOperatorWith(w.account, func(options *controller.Options) {
		options.Namespaces = namespaces
		options.LeaderElection.Lease = install.Namespace + "/" + install.Release
		options.Protection, options.MetricsAddress = controller.Protected, "127.0.0.1:0"
		options.OnListen = func(_ string, address net.Addr) { addresses <- address.String() }
	})
	w.metrics = <-addresses
	if err := w.operator.manager.Cache().Wait(w.ctx, cache.Current); err != nil {
		w.t.Fatal(err)
	}
}

// driveThroughEverything makes an operator do all that it can do.
func (w *auditedWorld) driveThroughEverything() {
	w.t.Helper()
	for _, child := range children { // The operator does not watch them, as they lack its labels.
		must(w.any.Resource(child).Namespace(w.namespace).Create(w.ctx, foreign(child), metav1.CreateOptions{}))(w.t)
	}
	w.start(w.namespace)
	for _, child := range children {
		w.create(w.hero("foreign-"+child.Resource, 1))
	}
	w.create(w.hero("bad", 1, "image", "registry.invalid/server:v1"))
	w.create(w.hero("pegasus", 2))
	for _, child := range children {
		w.awaitDegraded("foreign-"+child.Resource, v1.ReasonNameConflict)
	}
	w.awaitReady("pegasus", 2)
	w.driftOfEachChild()
	scale := must(w.heroes.Get(w.ctx, "pegasus", metav1.GetOptions{}, "scale"))(w.t)
	_ = unstructured.SetNestedField(scale.Object, int64(3), "spec", "replicas")
	must(w.heroes.Update(w.ctx, scale, metav1.UpdateOptions{}, "scale"))(w.t)
	w.awaitReady("pegasus", 3)
	w.scrape()
	w.awaitDegraded("bad", v1.ReasonImagePullFailed)
	w.awaitEvent(v1.ReasonImagePullFailed)
	w.change("bad", `{"spec":{"image":"bellerophon-io/bellerophon-server:v1"}}`)
	w.awaitReady("bad", 1)
	w.awaitEvent("Recovered")
	if err := w.heroes.Delete(w.ctx, "bad", metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	for _, child := range children {
		w.await(child, "bad", "gone", func(object *unstructured.Unstructured) bool { return object == nil })
	}
}

// foreign returns an object of another client, with the name of a hero's child.
func foreign(child schema.GroupVersionResource) *unstructured.Unstructured {
	made := map[schema.GroupVersionResource]*unstructured.Unstructured{
		configMaps: {Object: map[string]any{"kind": "ConfigMap"}},
		services:   {Object: map[string]any{"kind": "Service", "spec": map[string]any{"clusterIP": "None"}}},
		statefulSets: {Object: map[string]any{"kind": "StatefulSet", "spec": map[string]any{
			"replicas": int64(0), "serviceName": "none",
			"selector": map[string]any{"matchLabels": map[string]any{"app": "theirs"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "theirs"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}},
			},
		}}},
	}[child]
	made.SetAPIVersion(child.GroupVersion().String())
	made.SetName("foreign-" + child.Resource)
	return made
}

// driftOfEachChild changes each child as another client does, and awaits the repairs. Two equal repairs
// are a series of one Event.
func (w *auditedWorld) driftOfEachChild() {
	w.t.Helper()
	for _, drift := range []struct {
		of    schema.GroupVersionResource
		patch string
		field []string
		want  any
	}{
		{configMaps, `{"data":{"winged_horse_name":"hijacked"}}`, []string{"data", "winged_horse_name"}, "pegasus"},
		{configMaps, `{"data":{"winged_horse_name":"hijacked"}}`, []string{"data", "winged_horse_name"}, "pegasus"},
		{services, `{"spec":{"publishNotReadyAddresses":false}}`, []string{"spec", "publishNotReadyAddresses"}, true},
		{statefulSets, `{"spec":{"replicas":5}}`, []string{"spec", "replicas"}, int64(2)},
	} {
		client := w.any.Resource(drift.of).Namespace(w.namespace)
		changed := must(client.Patch(w.ctx, "pegasus", "application/merge-patch+json", []byte(drift.patch), metav1.PatchOptions{}))(w.t)
		w.await(drift.of, "pegasus", "repaired", func(object *unstructured.Unstructured) bool {
			value, _, _ := unstructured.NestedFieldNoCopy(object.Object, drift.field...)
			return value == drift.want && object.GetResourceVersion() != changed.GetResourceVersion()
		})
	}
	w.awaitSeries("Repaired")
	for _, child := range children {
		client := w.any.Resource(child).Namespace(w.namespace)
		before := must(client.Get(w.ctx, "pegasus", metav1.GetOptions{}))(w.t)
		if err := client.Delete(w.ctx, "pegasus", metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
		w.await(child, "pegasus", "made anew", func(object *unstructured.Unstructured) bool {
			return object != nil && object.GetUID() != before.GetUID()
		})
	}
	w.awaitReady("pegasus", 2)
	w.awaitEvent("Recreated")
}

// awaitSeries waits for an Event that was repeated.
func (w *world) awaitSeries(reason string) {
	w.t.Helper()
	watcher := must(w.core.EventsV1().Events(w.namespace).Watch(w.ctx, metav1.ListOptions{FieldSelector: "reason=" + reason}))(w.t)
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if recorded, ok := event.Object.(*eventsv1.Event); ok && recorded.Series != nil {
			return
		}
	}
	w.t.Fatalf("no Event with the reason %s is a series", reason)
}

// scrape gets the metrics with the token of a user who may not, which needs both reviews.
func (w *auditedWorld) scrape() {
	w.t.Helper()
	token := must(w.core.CoreV1().ServiceAccounts(w.namespace).CreateToken(w.ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(w.t)
	request := must(http.NewRequestWithContext(w.ctx, http.MethodGet, "https://"+w.metrics+"/metrics", nil))(w.t)
	request.Header.Set("Authorization", "Bearer "+token.Status.Token)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // The operator signs it by itself.
	defer transport.CloseIdleConnections()
	answer := must((&http.Client{Transport: transport}).Do(request))(w.t)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		w.t.Errorf("the metrics server answered %s, want a refusal after reviews", answer.Status)
	}
}

// restart stops the operator, and starts another one for all namespaces.
func (w *auditedWorld) restart() {
	w.t.Helper()
	w.operator.stop()
	w.start()
	w.change("pegasus", `{"spec":{"replicas":1}}`)
	w.awaitReady("pegasus", 1)
}

// withoutFinalizers takes the permission to update finalizers away, and checks that the operator then
// cannot create children.
func (w *auditedWorld) withoutFinalizers() {
	w.t.Helper()
	const finalizers = "sheroes/finalizers"
	roles := w.core.RbacV1().ClusterRoles()
	role := must(roles.Get(w.ctx, rolesOf(w.t, nil)[0].Name, metav1.GetOptions{}))(w.t)
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, finalizers) })
	must(roles.Update(w.ctx, role, metav1.UpdateOptions{}))(w.t)
	w.awaitRefusal(&authorizationv1.ResourceAttributes{Verb: "update", Group: v1.GroupVersion.Group, Resource: "sheroes", Subresource: "finalizers"})
	w.enter(refusedNamespace)
	w.create(w.hero("pegasus", 1))
	if message := w.awaitDegraded("pegasus", v1.ReasonWriteRefused); !strings.Contains(message, "blockOwnerDeletion") {
		w.t.Errorf("without the permission to update %s, the operator reports %q", finalizers, message)
	}
}

// awaitRefusal waits until the API server knows that the operator lacks a permission. No event says so.
func (w *world) awaitRefusal(of *authorizationv1.ResourceAttributes) {
	w.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		review := must(w.core.AuthorizationV1().SubjectAccessReviews().Create(w.ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: operatorUser, ResourceAttributes: of},
		}, metav1.CreateOptions{}))(w.t)
		if !review.Status.Allowed {
			return
		}
		<-ticker.C
	}
}

// stop stops the operator and the cluster, so that the audit log is complete.
func (w *auditedWorld) stop() {
	w.t.Helper()
	w.operator.stop()
	if err := w.cluster.Stop(); err != nil {
		w.t.Error(err)
	}
}
