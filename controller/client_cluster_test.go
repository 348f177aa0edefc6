package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// desk is a running manager on the real API server, whose client a test uses. Its requests are
// recorded.
type desk struct {
	t         *testing.T
	namespace string
	manager   *controller.Manager
	client    *controller.Client
	others    kubernetes.Interface // another client

	mu   sync.Mutex
	sent []string // the requests other than reads, as verb and path
}

var (
	serviceKind     = corev1.SchemeGroupVersion.WithKind("Service")
	accountKind     = corev1.SchemeGroupVersion.WithKind("ServiceAccount")
	roleKind        = rbacv1.SchemeGroupVersion.WithKind("Role")
	roleBindingKind = rbacv1.SchemeGroupVersion.WithKind("RoleBinding")
)

// blank returns an object without content of a kind, as a map.
func blank(kind schema.GroupVersionKind) *unstructured.Unstructured {
	made := &unstructured.Unstructured{}
	made.SetGroupVersionKind(kind)
	return made
}

// colorOf is a field of a ConfigMap that is indexed.
var colorOf = cache.FieldIndexer("data.color", func(config *corev1.ConfigMap) string { return config.Data["color"] })

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, namespace: clustertest.Namespace(t)}
	config := clustertest.Shared(t).AdminConfig()
	var err error
	d.others, err = kubernetes.NewForConfig(config)
	d.must(err)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recording{d, next} })
	d.manager, err = controller.NewManager(config, scheme.Scheme, controller.Options{
		Namespaces: []string{d.namespace}, UserAgent: "desk", Logger: slog.New(slog.DiscardHandler),
		OnError: func(err error) { t.Log(err) },
	})
	d.must(err)
	d.client = d.manager.Client()
	d.must(d.manager.Add("configs", nothing,
		controller.For(&corev1.ConfigMap{}, controller.Indexed(colorOf)), controller.Owns(&appsv1.Deployment{}), controller.Owns(&corev1.Pod{}),
		controller.Uses(&batchv1.Job{})))
	// One Go type stands for several kinds.
	d.must(d.manager.Add("services", nothing, controller.For(blank(serviceKind)), controller.Owns(blank(accountKind))))
	metadata := &metav1.PartialObjectMetadata{}
	d.must(d.manager.Add("roles", nothing,
		controller.For(metadata, controller.OfKind(roleKind)), controller.Owns(metadata, controller.OfKind(roleBindingKind))))
	group := lifecycle.New(t.Context())
	group.Go("manager", d.manager.Run)
	t.Cleanup(func() {
		group.Stop()
		d.must(group.Wait())
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := d.manager.Cache().Wait(ctx, cache.Current); err != nil {
		t.Fatalf("it waits for %q: %v", d.manager.Cache().Pending(cache.Current), err)
	}
	return d
}

func (d *desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// recording is a transport that records the requests of a desk.
type recording struct {
	desk *desk
	next http.RoundTripper
}

func (r recording) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		r.desk.mu.Lock()
		r.desk.sent = append(r.desk.sent, request.Method+" "+request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:])
		r.desk.mu.Unlock()
	}
	return r.next.RoundTrip(request)
}

// wantSent checks the requests since the last call.
func (d *desk) wantSent(when string, want ...string) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.sent, want) {
		d.t.Errorf("%s it sent %q, want %q", when, d.sent, want)
	}
	d.sent = nil
}

func (d *desk) name(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: d.namespace, Name: name}
}

// config returns a ConfigMap with labels that are given as names and values.
func (d *desk) config(name, color string, labelled ...string) *corev1.ConfigMap {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: name}, Data: map[string]string{"color": color}}
	for i := 0; i < len(labelled); i += 2 {
		metav1.SetMetaDataLabel(&made.ObjectMeta, labelled[i], labelled[i+1])
	}
	return made
}

func (d *desk) create(object *corev1.ConfigMap) *corev1.ConfigMap {
	d.t.Helper()
	made, err := controller.Create(d.t.Context(), d.client, object)
	d.must(err)
	return made
}

// wantList checks which ConfigMaps a list returns.
func (d *desk) wantList(what string, want string, options ...controller.ReadOption) {
	d.t.Helper()
	for how, list := range map[string]func(context.Context, *controller.Client, ...controller.ReadOption) ([]*corev1.ConfigMap, error){
		"List": controller.List[*corev1.ConfigMap], "ListLive": controller.ListLive[*corev1.ConfigMap],
	} {
		objects, err := list(d.t.Context(), d.client, append(options, controller.InNamespace(d.namespace))...)
		names := []string{}
		for _, object := range objects {
			if object.Name != "kube-root-ca.crt" {
				names = append(names, object.Name)
			}
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			d.t.Errorf("%s of %s returns %q, want %q: %v", how, what, got, want, err)
		}
	}
}

func TestListsSelectByLabelsFieldsNamespacesAndIndexes(t *testing.T) {
	d := newDesk(t)
	d.create(d.config("a", "red", "app", "web", "tier", "front"))
	d.create(d.config("b", "blue", "app", "web"))
	d.create(d.config("c", "red", "app", "db"))
	d.wantList("everything", "a b c")
	d.wantList("a label", "a b", controller.LabelSelector("app=web"))
	d.wantList("two label selectors", "b", controller.LabelSelector("app=web"), controller.LabelSelector("!tier"))
	d.wantList("a set of labels", "a", controller.MatchingLabels(map[string]string{"app": "web", "tier": "front"}))
	d.wantList("a name", "b", controller.FieldSelector("metadata.name=b"))
	d.wantList("all names but one", "a", controller.FieldSelector("metadata.name!=b"), controller.LabelSelector("app=web"))
	for what, test := range map[string]struct {
		want    []string
		options []controller.ReadOption
	}{
		"an index":                          {[]string{"a", "c"}, []controller.ReadOption{controller.InIndex("data.color", "red")}},
		"an index and a label":              {[]string{"c"}, []controller.ReadOption{controller.InIndex("data.color", "red"), controller.LabelSelector("app=db")}},
		"a field that is indexed":           {[]string{"a", "c"}, []controller.ReadOption{controller.FieldSelector("data.color=red")}},
		"a field that is indexed, excluded": {[]string{"b"}, []controller.ReadOption{controller.FieldSelector("data.color!=red"), controller.LabelSelector("app")}},
		"two fields":                        {[]string{"c"}, []controller.ReadOption{controller.FieldSelector("data.color=red,metadata.name=c")}},
		"an index of another namespace":     {nil, []controller.ReadOption{controller.InIndex("data.color", "red"), controller.InNamespace("default")}},
	} {
		var names []string
		for _, object := range listed[*corev1.ConfigMap](d.client, test.options...) {
			names = append(names, object.Name)
		}
		if !slices.Equal(names, test.want) {
			t.Errorf("a list of %s returns %q, want %q", what, names, test.want)
		}
	}
	for want, options := range map[string][]controller.ReadOption{
		`InIndex names "color", and the indexes of ConfigMap are owner, data.color`: {controller.InIndex("color", "red")},
		"FieldSelector names data.size, which the cache does not know":              {controller.FieldSelector("data.size=1")},
		`LabelSelector is "app in", which is not a selector`:                        {controller.LabelSelector("app in")},
		`FieldSelector is "data.color", which is not a field selector`:              {controller.FieldSelector("data.color")},
	} {
		if _, err := controller.List[*corev1.ConfigMap](t.Context(), d.client, options...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one that contains %q", err, want)
		}
	}
	if _, err := controller.Get[*corev1.ConfigMap](t.Context(), d.client, d.name("a"), controller.LabelSelector("app=web")); err == nil {
		t.Error("Get takes a selector")
	}
}

func TestLivePagesShowOneState(t *testing.T) {
	d := newDesk(t)
	const objects = controller.DefaultPageSize + 20
	group := lifecycle.New(t.Context())
	for writer := range 8 {
		group.Go("writer", func(ctx context.Context) error {
			for i := writer; i < objects; i += 8 {
				if _, err := controller.Create(ctx, d.client, d.config(fmt.Sprintf("n%04d", i), "red", "many", "yes")); err != nil {
					return err
				}
			}
			return nil
		})
	}
	d.must(group.Wait())
	var sizes []int
	for page, err := range controller.LivePages[*corev1.ConfigMap](t.Context(), d.client, controller.InNamespace(d.namespace), controller.LabelSelector("many")) {
		d.must(err)
		sizes = append(sizes, len(page))
		if len(sizes) == 1 {
			d.must(controller.Delete(t.Context(), d.client, d.config("n0519", "")))
			d.create(d.config("n9999", "red", "many", "yes"))
		}
	}
	if !slices.Equal(sizes, []int{controller.DefaultPageSize, 20}) {
		t.Errorf("the pages have %d objects", sizes)
	}
	if all, err := controller.ListLive[*corev1.ConfigMap](t.Context(), d.client, controller.InNamespace(d.namespace), controller.LabelSelector("many")); err != nil || len(all) != objects {
		t.Errorf("the list has %d objects, want %d: %v", len(all), objects, err)
	}
	if got := len(listed[*corev1.ConfigMap](d.client, controller.LabelSelector("many"))); got != objects {
		t.Errorf("the cache shows %d objects, want %d", got, objects)
	}
}

func TestAKindThatIsUsedIsReadAndWrittenLiveAndNeverCached(t *testing.T) {
	d := newDesk(t)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "backup", Labels: map[string]string{"app": "db"}},
		Spec: batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "example.invalid/backup"}},
		}}},
	}
	_, err := controller.Create(t.Context(), d.client, job)
	d.must(err)
	// The job controller of the cluster writes the status meanwhile.
	_, err = controller.RetryOnConflict(t.Context(), d.client, d.name("backup"), func(found *batchv1.Job) error {
		found.Labels["app"] = "web"
		return nil
	})
	d.must(err)
	jobs, err := controller.List[*batchv1.Job](t.Context(), d.client, controller.InNamespace(d.namespace), controller.LabelSelector("app=web"))
	if err != nil || len(jobs) != 1 || jobs[0].Name != "backup" {
		t.Errorf("the list is %v: %v", jobs, err)
	}
	if d.manager.Cache().Store(schema.GroupKind{Group: "batch", Kind: "Job"}) != nil {
		t.Error("jobs are cached")
	}
	if _, err := controller.List[*batchv1.Job](t.Context(), d.client, controller.InIndex("owner", "x")); err == nil {
		t.Error("a kind that is not cached is read by an index")
	}
	d.must(controller.Delete(t.Context(), d.client, jobs[0], controller.Propagation(metav1.DeletePropagationBackground)))
	if _, err := controller.Get[*batchv1.Job](t.Context(), d.client, d.name("backup")); !apierrors.IsNotFound(err) {
		t.Errorf("the deleted job is read: %v", err)
	}
}

func TestADeletionIsVisibleToTheNextRead(t *testing.T) {
	d := newDesk(t)
	for i := range 20 { // The watch reports the deletion at once; without the overlay, some reads are earlier.
		made := d.create(d.config(fmt.Sprint("x", i), "red"))
		d.must(controller.Delete(t.Context(), d.client, made))
		if _, err := controller.Get[*corev1.ConfigMap](t.Context(), d.client, d.name(made.Name)); !apierrors.IsNotFound(err) {
			t.Fatalf("after its deletion %s is read: %v", made.Name, err)
		}
		if left := listed[*corev1.ConfigMap](d.client, controller.LabelSelector("!kubernetes.io/none"), controller.FieldSelector("metadata.name="+made.Name)); len(left) > 0 {
			t.Fatalf("after its deletion %s is listed", made.Name)
		}
	}
	err := controller.Delete(t.Context(), d.client, d.config("x0", ""))
	if !apierrors.IsNotFound(err) || controller.IgnoreNotFound(err) != nil {
		t.Errorf("the deletion of an object that does not exist returns %v", err)
	}

	held := d.config("held", "red")
	held.Finalizers = []string{"example.org/hold"}
	made := d.create(held)
	d.must(controller.Delete(t.Context(), d.client, made))
	leaving, err := controller.Get[*corev1.ConfigMap](t.Context(), d.client, d.name("held"))
	if err != nil || leaving.DeletionTimestamp == nil {
		t.Fatalf("an object with a finalizer is read as %v: %v", leaving, err)
	}
	_, err = controller.Patch(t.Context(), d.client, leaving, controller.JSONPatch(
		controller.JSONPatchOperation{Op: "test", Path: "/metadata/finalizers/0", Value: "example.org/hold"},
		controller.JSONPatchOperation{Op: "remove", Path: "/metadata/finalizers/0"}))
	d.must(err)
	d.gone("held")
}

// gone waits until the cache no longer has a ConfigMap.
func (d *desk) gone(name string) {
	d.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := controller.Get[*corev1.ConfigMap](d.t.Context(), d.client, d.name(name)); apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("%s does not go", name)
		}
		idleFor(d.t.Context(), 10*time.Millisecond)
	}
}

func TestADeletionIsOnConditionOfTheUidAndOfTheVersionIfAsked(t *testing.T) {
	d := newDesk(t)
	first := d.create(d.config("x", "red"))
	d.must(controller.Delete(t.Context(), d.client, first))
	second := d.create(d.config("x", "blue"))
	if err := controller.Delete(t.Context(), d.client, first); !apierrors.IsConflict(err) {
		t.Errorf("the deletion of a predecessor returns %v", err)
	}
	changed := second.DeepCopy()
	changed.Data["color"] = "green"
	third, err := controller.Update(t.Context(), d.client, changed)
	d.must(err)
	if err := controller.Delete(t.Context(), d.client, second, controller.IfUnchanged()); !apierrors.IsConflict(err) {
		t.Errorf("the deletion of a changed object returns %v", err)
	}
	if held, err := controller.Get[*corev1.ConfigMap](t.Context(), d.client, d.name("x")); err != nil || held.Data["color"] != "green" {
		t.Errorf("the object is %v: %v", held, err)
	}
	d.must(controller.Delete(t.Context(), d.client, third, controller.IfUnchanged()))
	d.wantList("everything", "")
}

func TestDeleteAllOfDeletesWhatIsSelectedAndShowsTheRest(t *testing.T) {
	d := newDesk(t)
	d.create(d.config("a", "red", "app", "web"))
	d.create(d.config("b", "red", "app", "web"))
	held := d.config("c", "red", "app", "web")
	held.Finalizers = []string{"example.org/hold"}
	held = d.create(held)
	d.create(d.config("d", "red", "app", "db"))
	selected := []controller.ReadOption{controller.InNamespace(d.namespace), controller.LabelSelector("app=web")}
	d.must(controller.DeleteAllOf[*corev1.ConfigMap](t.Context(), d.client, selected, controller.DryRun()))
	d.wantList("everything", "a b c d")
	d.must(controller.DeleteAllOf[*corev1.ConfigMap](t.Context(), d.client, selected))
	d.wantList("everything", "c d")
	if left, err := controller.Get[*corev1.ConfigMap](t.Context(), d.client, d.name("c")); err != nil || left.DeletionTimestamp == nil {
		t.Errorf("the object with a finalizer is %v: %v", left, err)
	}
	for want, err := range map[string]error{
		"give InNamespace":            controller.DeleteAllOf[*corev1.ConfigMap](t.Context(), d.client, nil),
		"InIndex names an index":      controller.DeleteAllOf[*corev1.ConfigMap](t.Context(), d.client, append(selected, controller.InIndex("data.color", "red"))),
		"IfUnchanged applies to":      controller.DeleteAllOf[*corev1.ConfigMap](t.Context(), d.client, selected, controller.IfUnchanged()),
		"Force does not apply":        controller.DeleteAllOf[*corev1.ConfigMap](t.Context(), d.client, selected, controller.Force()),
		"allowed are Background, For": controller.DeleteAllOf[*corev1.ConfigMap](t.Context(), d.client, selected, controller.Propagation("later")),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one that contains %q", err, want)
		}
	}
	d.wantList("everything", "c d")
	_, err := controller.Patch(t.Context(), d.client, held, controller.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	d.must(err)
	d.gone("c")
}

func TestAnUpdateReplacesTheObjectAndConflictsWithAnother(t *testing.T) {
	d := newDesk(t)
	made := d.create(d.config("x", "red"))
	changed := made.DeepCopy()
	changed.Data = map[string]string{"size": "9"}
	_, err := controller.Update(t.Context(), d.client, changed)
	d.must(err)
	held, _ := cached[*corev1.ConfigMap](d.client, d.name("x"))
	if !reflect.DeepEqual(held.Data, changed.Data) {
		t.Errorf("the next read sees %v", held.Data)
	}
	if _, err := controller.Update(t.Context(), d.client, changed); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version returns %v", err)
	}
	if _, err := controller.Update(t.Context(), d.client, d.config("other", "")); !apierrors.IsNotFound(err) {
		t.Errorf("an update of an object that does not exist returns %v", err)
	}
}

func TestADryRunChangesNothingAndIsNotVisible(t *testing.T) {
	d := newDesk(t)
	made, err := controller.Create(t.Context(), d.client, d.config("x", "red"), controller.DryRun())
	if err != nil || made.UID == "" {
		t.Errorf("the answer is %v: %v", made, err)
	}
	d.wantList("everything", "")
	stored := d.create(d.config("x", "red"))
	changed := stored.DeepCopy()
	changed.Data["color"] = "blue"
	_, err = controller.Patch(t.Context(), d.client, changed, controller.MergeFrom(stored), controller.DryRun())
	d.must(err)
	_, err = controller.Apply[*corev1.ConfigMap](t.Context(), d.client, controller.ApplyConfigurationOf(d.config("x", "green")), controller.DryRun(), controller.Force())
	d.must(err)
	d.must(controller.Delete(t.Context(), d.client, stored, controller.DryRun()))
	for i := range 3 {
		if held, found := cached[*corev1.ConfigMap](d.client, d.name("x")); !found || held.ResourceVersion != stored.ResourceVersion {
			t.Fatalf("read %d sees %v", i, held)
		}
		idleFor(t.Context(), 50*time.Millisecond)
	}
}

func TestStrictValidationRefusesUnknownFields(t *testing.T) {
	d := newDesk(t)
	service := blank(serviceKind)
	service.SetNamespace(d.namespace)
	service.SetName("pegasus")
	d.must(unstructured.SetNestedMap(service.Object, map[string]any{"clusterIP": "None", "wings": "two", "ports": []any{map[string]any{"port": int64(80)}}}, "spec"))
	_, err := controller.Create(t.Context(), d.client, service, controller.FieldValidation(controller.ValidateStrict))
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "wings") {
		t.Errorf("strict validation returns %v", err)
	}
	_, err = controller.Create(t.Context(), d.client, service, controller.FieldValidation(controller.ValidateIgnore))
	d.must(err)
	if _, err := controller.Create(t.Context(), d.client, service, controller.FieldValidation("loose")); err == nil || !strings.Contains(err.Error(), "allowed are Strict, Warn and Ignore") {
		t.Errorf("the error is %v", err)
	}
}

func TestAnApplyThatWouldChangeNothingIsNotSent(t *testing.T) {
	d := newDesk(t)
	wanted := func(color string) *applycorev1.ConfigMapApplyConfiguration {
		return applycorev1.ConfigMap("x", d.namespace).WithLabels(map[string]string{"app": "web"}).WithData(map[string]string{"color": color, "size": "9"})
	}
	apply := func(configuration *applycorev1.ConfigMapApplyConfiguration, options ...controller.WriteOption) *corev1.ConfigMap {
		t.Helper()
		made, err := controller.Apply[*corev1.ConfigMap](t.Context(), d.client, configuration, options...)
		d.must(err)
		return made
	}
	made := apply(wanted("red"))
	d.wantSent("at first", "PATCH x")
	for range 3 {
		again := apply(wanted("red"))
		if again.UID != made.UID || again.Data["color"] != "red" {
			t.Errorf("it returned %v", again)
		}
		again.Data["color"] = "of the caller"
	}
	d.wantSent("with the same configuration")
	if held, _ := cached[*corev1.ConfigMap](d.client, d.name("x")); held.Data["color"] != "red" {
		t.Error("a change of what Apply returned is in the cache")
	}

	// Another client changes parts that the configuration does not set.
	d.foreign(`{"metadata":{"annotations":{"seen":"yes"},"labels":{"tier":"front"}}}`)
	apply(wanted("red"))
	d.wantSent("after a change of other labels and annotations")
	d.foreign(`{"data":{"other":"yes"}}`)
	apply(wanted("red"))
	apply(wanted("red"))
	d.wantSent("after a change of the data", "PATCH x") // Only the API server knows that the data is no atomic map.

	// Drift of a field that it sets is repaired, with force.
	d.foreign(`{"data":{"color":"grey"}}`)
	if _, err := controller.Apply[*corev1.ConfigMap](t.Context(), d.client, wanted("red")); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "somebody") {
		t.Errorf("without force the drift of another client is overwritten: %v", err)
	}
	repaired := apply(wanted("red"), controller.Force())
	if repaired.Data["color"] != "red" || repaired.Data["other"] != "yes" {
		t.Errorf("the repaired object has %v", repaired.Data)
	}
	d.wantSent("after drift", "PATCH x", "PATCH x")

	// What the configuration no longer sets goes.
	pruned := apply(applycorev1.ConfigMap("x", d.namespace).WithData(map[string]string{"color": "red"}))
	if !reflect.DeepEqual(pruned.Data, map[string]string{"color": "red", "other": "yes"}) || pruned.Labels["app"] != "" {
		t.Errorf("the pruned object has %v and the labels %v", pruned.Data, pruned.Labels)
	}
	d.wantSent("with fewer fields", "PATCH x")

	// A recreated object is another one.
	d.must(d.others.CoreV1().ConfigMaps(d.namespace).Delete(t.Context(), "x", metav1.DeleteOptions{}))
	d.gone("x")
	if again := apply(applycorev1.ConfigMap("x", d.namespace).WithData(map[string]string{"color": "red"})); again.UID == made.UID {
		t.Error("it was not created again")
	}
	d.wantSent("after a deletion", "PATCH x")
}

// foreign patches the ConfigMap x as another client, and waits until the cache has the change.
func (d *desk) foreign(patch string) {
	d.t.Helper()
	written, err := d.others.CoreV1().ConfigMaps(d.namespace).Patch(d.t.Context(), "x", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"})
	d.must(err)
	for deadline := time.Now().Add(10 * time.Second); ; {
		if held, _ := cached[*corev1.ConfigMap](d.client, d.name("x")); held != nil && held.ResourceVersion == written.ResourceVersion {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatal("the cache misses the change of another client")
		}
		idleFor(d.t.Context(), 5*time.Millisecond)
	}
}

func TestAnApplyWithDefaultsAndListsSettles(t *testing.T) {
	d := newDesk(t)
	selected := map[string]string{"app": "web"}
	wanted := func() *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "web"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: selected},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selected}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "server", Image: "example.invalid/server", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
				}}}},
			},
		}
	}
	apply := func() *appsv1.Deployment {
		t.Helper()
		made, err := controller.Apply[*appsv1.Deployment](t.Context(), d.client, controller.ApplyConfigurationOf(wanted()))
		d.must(err)
		return made
	}
	made := apply()
	if made.Spec.Template.Spec.Containers[0].Ports[0].Protocol != corev1.ProtocolTCP {
		t.Errorf("the API server set no default: %+v", made.Spec.Template.Spec.Containers[0])
	}
	d.wantSent("at first", "PATCH web")
	_, err := d.others.AppsV1().Deployments(d.namespace).Patch(t.Context(), "web", types.StrategicMergePatchType,
		[]byte(`{"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"sidecar","image":"example.invalid/sidecar"}]}}}}`), metav1.PatchOptions{})
	d.must(err)
	for deadline := time.Now().Add(10 * time.Second); ; idleFor(t.Context(), 5*time.Millisecond) {
		if held, _ := cached[*appsv1.Deployment](d.client, d.name("web")); len(held.Spec.Template.Spec.Containers) == 2 || time.Now().After(deadline) {
			break
		}
	}
	if kept := apply(); *kept.Spec.Replicas != 3 || len(kept.Spec.Template.Spec.Containers) != 2 {
		t.Errorf("fields of another client are undone: %+v", kept.Spec)
	}
	apply()
	d.wantSent("with fields of another client beside it", "PATCH web")
}

// The selector of a Service is an atomic map: another entry is drift.
func TestAnApplySeesDriftOfAnAtomicMap(t *testing.T) {
	d := newDesk(t)
	wanted := blank(serviceKind)
	wanted.SetNamespace(d.namespace)
	wanted.SetName("web")
	d.must(unstructured.SetNestedMap(wanted.Object, map[string]any{
		"clusterIP": "None", "selector": map[string]any{"app": "web"}, "ports": []any{map[string]any{"port": int64(80), "protocol": "TCP"}},
	}, "spec"))
	apply := func() *unstructured.Unstructured {
		t.Helper()
		made, err := controller.Apply[*unstructured.Unstructured](t.Context(), d.client, controller.ApplyConfigurationOf(wanted), controller.Force())
		d.must(err)
		return made
	}
	apply()
	_, err := d.others.CoreV1().Services(d.namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"selector":{"tier":"front"}}}`), metav1.PatchOptions{})
	d.must(err)
	for deadline := time.Now().Add(10 * time.Second); ; idleFor(t.Context(), 5*time.Millisecond) {
		held, err := controller.Get[*unstructured.Unstructured](t.Context(), d.client, d.name("web"), controller.OfKind(serviceKind))
		d.must(err)
		if selector, _, _ := unstructured.NestedStringMap(held.Object, "spec", "selector"); len(selector) == 2 || time.Now().After(deadline) {
			break
		}
	}
	if selector, _, _ := unstructured.NestedStringMap(apply().Object, "spec", "selector"); !reflect.DeepEqual(selector, map[string]string{"app": "web"}) {
		t.Errorf("the repaired selector is %v", selector)
	}
}

func TestTwoControllersApplyWithTheirOwnNames(t *testing.T) {
	d := newDesk(t)
	fields := func(name string) *applycorev1.ConfigMapApplyConfiguration {
		return applycorev1.ConfigMap("x", d.namespace).WithData(map[string]string{name: "yes"})
	}
	for _, name := range []string{"one", "two"} {
		_, err := controller.Apply[*corev1.ConfigMap](t.Context(), d.client, fields(name), controller.FieldManager(name))
		d.must(err)
	}
	if held, _ := cached[*corev1.ConfigMap](d.client, d.name("x")); len(held.Data) != 2 {
		t.Errorf("one field manager removed the fields of another: %v", held.Data)
	}
	made, err := d.others.CoreV1().ConfigMaps(d.namespace).Get(t.Context(), "x", metav1.GetOptions{})
	d.must(err)
	var managers []string
	for _, entry := range made.ManagedFields {
		managers = append(managers, entry.Manager)
	}
	if !slices.Equal(managers, []string{"one", "two"}) {
		t.Errorf("the field managers are %q", managers)
	}
}

func TestAScaleIsVisibleToTheNextRead(t *testing.T) {
	d := newDesk(t)
	selected := map[string]string{"app": "web"}
	made, err := controller.Create(t.Context(), d.client, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: selected}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: selected}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "server", Image: "example.invalid/server"}}},
		}},
	})
	d.must(err)
	for _, replicas := range []int32{3, 0, 5} {
		scaled, err := controller.Scale(t.Context(), d.client, made, replicas)
		if err != nil || scaled.Spec.Replicas != replicas {
			t.Fatalf("the scale is %v: %v", scaled, err)
		}
		if held, _ := cached[*appsv1.Deployment](d.client, d.name("web")); *held.Spec.Replicas != replicas {
			t.Errorf("the next read sees %d replicas, want %d", *held.Spec.Replicas, replicas)
		}
	}
	if scale, err := controller.GetScale[*appsv1.Deployment](t.Context(), d.client, d.name("web")); err != nil || scale.Spec.Replicas != 5 {
		t.Errorf("the scale is %v: %v", scale, err)
	}
	if _, err := controller.Scale(t.Context(), d.client, made, -1); err == nil {
		t.Error("a negative number of replicas is accepted")
	}
	if _, err := controller.Scale(t.Context(), d.client, d.create(d.config("x", "")), 1); !apierrors.IsNotFound(err) {
		t.Errorf("a ConfigMap is scaled: %v", err)
	}
	if _, err := controller.Patch(t.Context(), d.client, made, controller.RawPatch(types.MergePatchType, []byte("{}")), controller.Subresource("scale")); err == nil || !strings.Contains(err.Error(), "use Scale") {
		t.Errorf("the subresource scale is patched: %v", err)
	}
}

func TestAnEvictionIsVisibleToTheNextRead(t *testing.T) {
	d := newDesk(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "x"},
		Spec:       corev1.PodSpec{NodeSelector: map[string]string{"no": "node"}, Containers: []corev1.Container{{Name: "main", Image: "example.invalid/main"}}},
	}
	made, err := controller.Create(t.Context(), d.client, pod)
	d.must(err)
	d.must(controller.Evict(t.Context(), d.client, made, controller.DryRun()))
	if held, found := cached[*corev1.Pod](d.client, d.name("x")); !found || held.DeletionTimestamp != nil {
		t.Error("a dry run evicts the pod")
	}
	d.must(controller.Evict(t.Context(), d.client, made, controller.GracePeriod(0)))
	if held, found := cached[*corev1.Pod](d.client, d.name("x")); found && held.DeletionTimestamp == nil {
		t.Errorf("the evicted pod is read as %v", held.Status.Phase)
	}
	if err := controller.Evict(t.Context(), d.client, d.create(d.config("x", ""))); err == nil || !strings.Contains(err.Error(), "only pods can be evicted") {
		t.Errorf("a ConfigMap is evicted: %v", err)
	}
}

func TestOneGoTypeServesSeveralKinds(t *testing.T) {
	d := newDesk(t)
	account := blank(accountKind)
	account.SetNamespace(d.namespace)
	account.SetName("rider")
	made, err := controller.Create(t.Context(), d.client, account)
	d.must(err)
	if made.GroupVersionKind() != accountKind {
		t.Errorf("the answer is of %v", made.GroupVersionKind())
	}
	changed := made.DeepCopy()
	changed.SetLabels(map[string]string{"app": "web"})
	_, err = controller.Patch(t.Context(), d.client, changed, controller.MergeFrom(made))
	d.must(err)
	held, err := controller.Get[*unstructured.Unstructured](t.Context(), d.client, d.name("rider"), controller.OfKind(accountKind))
	if err != nil || held.GetLabels()["app"] != "web" || held.GroupVersionKind() != accountKind {
		t.Errorf("the next read sees %v: %v", held, err)
	}
	if _, err := controller.Get[*unstructured.Unstructured](t.Context(), d.client, d.name("rider"), controller.OfKind(serviceKind)); !apierrors.IsNotFound(err) {
		t.Errorf("a service of that name is found: %v", err)
	}
	if _, err := controller.Get[*unstructured.Unstructured](t.Context(), d.client, d.name("rider")); err == nil || !strings.Contains(err.Error(), "name one with OfKind") {
		t.Errorf("without a kind the error is %v", err)
	}
	if _, err := controller.Get[*unstructured.Unstructured](t.Context(), d.client, d.name("rider"), controller.OfKind(roleKind)); !errors.Is(err, controller.ErrNotDeclared) {
		t.Errorf("a kind that is declared with another type is read: %v", err)
	}
	all, err := controller.List[*unstructured.Unstructured](t.Context(), d.client, controller.OfKind(accountKind), controller.LabelSelector("app=web"))
	if err != nil || len(all) != 1 {
		t.Errorf("the list is %v: %v", all, err)
	}
	live, err := controller.ListLive[*unstructured.Unstructured](t.Context(), d.client, controller.OfKind(accountKind), controller.LabelSelector("app=web"), controller.InNamespace(d.namespace))
	if err != nil || len(live) != 1 || live[0].GroupVersionKind() != accountKind {
		t.Errorf("the live list is %v: %v", live, err)
	}
	d.must(controller.Delete(t.Context(), d.client, live[0]))

	// Metadata of two kinds.
	_, err = d.others.RbacV1().Roles(d.namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "rider"}}, metav1.CreateOptions{})
	d.must(err)
	role, err := controller.GetLive[*metav1.PartialObjectMetadata](t.Context(), d.client, d.name("rider"), controller.OfKind(roleKind))
	d.must(err)
	labelled := role.DeepCopy()
	labelled.Labels = map[string]string{"app": "web"}
	_, err = controller.Patch(t.Context(), d.client, labelled, controller.MergeFrom(role))
	d.must(err)
	if held, err := controller.Get[*metav1.PartialObjectMetadata](t.Context(), d.client, d.name("rider"), controller.OfKind(roleKind)); err != nil || held.Labels["app"] != "web" {
		t.Errorf("the next read sees %v: %v", held, err)
	}
	if _, err := controller.Get[*metav1.PartialObjectMetadata](t.Context(), d.client, d.name("rider"), controller.OfKind(roleBindingKind)); !apierrors.IsNotFound(err) {
		t.Errorf("a role binding of that name is found: %v", err)
	}
	d.must(controller.Delete(t.Context(), d.client, labelled))
}

func TestRetryOnConflictLosesNoChange(t *testing.T) {
	d := newDesk(t)
	d.create(d.config("x", "red"))
	const writers, times = 6, 5
	group := lifecycle.New(t.Context())
	for writer := range writers {
		group.Go("writer", func(ctx context.Context) error {
			for i := range times {
				_, err := controller.RetryOnConflict(ctx, d.client, d.name("x"), func(config *corev1.ConfigMap) error {
					config.Data[fmt.Sprintf("%d-%d", writer, i)] = "yes"
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	d.must(group.Wait())
	held, _ := cached[*corev1.ConfigMap](d.client, d.name("x"))
	if len(held.Data) != writers*times+1 {
		t.Errorf("%d of %d changes are there", len(held.Data)-1, writers*times)
	}
	d.mu.Lock()
	d.sent = nil
	d.mu.Unlock()
	_, err := controller.RetryOnConflict(t.Context(), d.client, d.name("x"), func(config *corev1.ConfigMap) error { return nil })
	d.must(err)
	d.wantSent("for no change")
	stop := errors.New("stop")
	if _, err := controller.RetryOnConflict(t.Context(), d.client, d.name("x"), func(*corev1.ConfigMap) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the error is %v", err)
	}
	if _, err := controller.RetryOnConflict(t.Context(), d.client, d.name("none"), func(*corev1.ConfigMap) error { return nil }); !apierrors.IsNotFound(err) {
		t.Errorf("the error is %v", err)
	}
}
