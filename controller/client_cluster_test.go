package controller_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
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
	return newDeskIn(t, clustertest.Namespace(t))
}

// newDeskIn returns another desk for a namespace, as after a restart of the process.
func newDeskIn(t *testing.T, namespace string) *desk {
	t.Helper()
	d := &desk{t: t, namespace: namespace}
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
	d.until(name+" is gone", func() bool {
		_, err := controller.Get[*corev1.ConfigMap](d.t.Context(), d.client, d.name(name))
		return apierrors.IsNotFound(err)
	})
}

// until waits until the cache has reached a state.
func (d *desk) until(what string, reached func() bool) {
	d.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !reached(); idleFor(d.t.Context(), 5*time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatalf("it took longer than 10 s until %s", what)
		}
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

// foreign patches the ConfigMap x as another client, and waits until the cache has the change.
// The selector of a Service is an atomic map: another entry is drift.
