package sourcestest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	heroes      = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "heroes"}
)

// api returns a client for all kinds, over HTTP.
func api(t *testing.T, server *sourcestest.Server) dynamic.Interface {
	t.Helper()
	made, err := dynamic.NewForConfig(server.Config())
	must(t, err)
	return made
}

// object returns an object with fields, given as pairs of a path and a value.
func object(apiVersion, kind, namespace, name string, fields ...any) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{}}
	made.SetAPIVersion(apiVersion)
	made.SetKind(kind)
	made.SetNamespace(namespace)
	made.SetName(name)
	for i := 0; i < len(fields); i += 2 {
		if err := unstructured.SetNestedField(made.Object, fields[i+1], strings.Split(fields[i].(string), ".")...); err != nil {
			panic(err)
		}
	}
	return made
}

// failsWith fails the test unless a request was refused with a reason.
func failsWith(t *testing.T, what string, err error, reason metav1.StatusReason) {
	t.Helper()
	if got := apierrors.ReasonForError(err); err == nil || got != reason {
		t.Errorf("%s: %v, for the reason %q, want %q", what, err, got, reason)
	}
}

func TestAnObjectLivesAsOnARealServer(t *testing.T) {
	server := newServer(t, sourcestest.Options{})
	client, ctx := api(t, server).Resource(deployments).Namespace("a"), t.Context()
	wanted := object("apps/v1", "Deployment", "", "x", "spec.replicas", int64(1), "status.replicas", int64(9))

	made, err := client.Create(ctx, wanted, metav1.CreateOptions{})
	must(t, err)
	if _, has := made.Object["status"]; has || made.GetUID() == "" || made.GetGeneration() != 1 || made.GetNamespace() != "a" || made.GetCreationTimestamp() == (metav1.Time{}) {
		t.Errorf("created %v", made)
	}
	_, err = client.Create(ctx, wanted, metav1.CreateOptions{})
	failsWith(t, "creating it again", err, metav1.StatusReasonAlreadyExists)

	status := made.DeepCopy()
	must(t, unstructured.SetNestedField(status.Object, int64(3), "status", "replicas"))
	must(t, unstructured.SetNestedField(status.Object, int64(3), "spec", "replicas"))
	status, err = client.UpdateStatus(ctx, status, metav1.UpdateOptions{})
	must(t, err)
	if replicas, _, _ := unstructured.NestedInt64(status.Object, "spec", "replicas"); replicas != 1 || status.GetGeneration() != 1 {
		t.Errorf("after the update of the status, the object is %v", status)
	}
	_, err = client.Update(ctx, made, metav1.UpdateOptions{})
	failsWith(t, "updating an old version", err, metav1.StatusReasonConflict)

	patch := func(body string, subresources ...string) (*unstructured.Unstructured, error) {
		return client.Patch(ctx, "x", types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
	}
	patched, err := patch(`{"spec":{"replicas":2},"status":{"replicas":7}}`)
	must(t, err)
	if replicas, _, _ := unstructured.NestedInt64(patched.Object, "status", "replicas"); replicas != 3 || patched.GetGeneration() != 2 {
		t.Errorf("after the patch of the spec, the object is %v", patched)
	}
	same, err := patch(`{"spec":{"replicas":2}}`)
	must(t, err)
	if same.GetResourceVersion() != patched.GetResourceVersion() {
		t.Errorf("a patch that changes nothing returned version %s, want %s", same.GetResourceVersion(), patched.GetResourceVersion())
	}
	_, err = patch(fmt.Sprintf(`{"metadata":{"resourceVersion":%q}}`, made.GetResourceVersion()), "status")
	failsWith(t, "patching an old version", err, metav1.StatusReasonConflict)

	other := types.UID("another")
	err = client.Delete(ctx, "x", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	failsWith(t, "deleting another", err, metav1.StatusReasonConflict)
	must(t, client.Delete(ctx, "x", metav1.DeleteOptions{}))
	_, err = client.Get(ctx, "x", metav1.GetOptions{})
	failsWith(t, "reading what is gone", err, metav1.StatusReasonNotFound)
	_, err = client.Create(ctx, object("apps/v1", "Deployment", "b", "x"), metav1.CreateOptions{})
	failsWith(t, "creating it in another namespace", err, metav1.StatusReasonBadRequest)
}

func TestTheServerMakesNames(t *testing.T) {
	server := newServer(t, sourcestest.Options{})
	first, second, nameless := configMap(""), configMap(""), configMap("")
	first.GenerateName, second.GenerateName = "x-", "x-"
	must(t, server.Create(first))
	must(t, server.Create(second))
	if first.Name == second.Name || !strings.HasPrefix(first.Name, "x-") {
		t.Errorf("the generated names are %q and %q", first.Name, second.Name)
	}
	failsWith(t, "creating without a name", server.Create(nameless), metav1.StatusReasonInvalid)
	failsWith(t, "creating with a version", server.Create(first), metav1.StatusReasonUnknown)
}

func TestRequestsThatAreNotUnderstoodAreRefused(t *testing.T) {
	server := newServer(t, sourcestest.Options{})
	for _, test := range []struct {
		method, path, accept string
		want                 int
	}{
		{http.MethodGet, "/version", "", http.StatusOK},
		{http.MethodGet, "/api/v1/unknown", "", http.StatusNotFound},
		{http.MethodGet, "/api/v1/namespaces/a/configmaps/x/scale", "", http.StatusNotFound},
		{http.MethodPut, "/api/v1/namespaces/a/configmaps", "", http.StatusMethodNotAllowed},
		{http.MethodGet, "/api/v1/configmaps", "application/vnd.kubernetes.protobuf", http.StatusNotAcceptable},
		{http.MethodGet, "/api/v1/configmaps?limit=many", "", http.StatusBadRequest},
		{http.MethodGet, "/api/v1/configmaps?continue=!", "", http.StatusBadRequest},
		{http.MethodGet, "/api/v1/configmaps?labelSelector=!!", "", http.StatusBadRequest},
		{http.MethodPost, "/api/v1/namespaces/a/configmaps", "", http.StatusBadRequest},
		{http.MethodGet, "/api/v1/configmaps", "application/vnd.kubernetes.protobuf,application/json", http.StatusOK},
		{http.MethodGet, "/api/v1/namespaces/a/status", "", http.StatusNotFound}, // of the namespace itself
	} {
		request, err := http.NewRequestWithContext(t.Context(), test.method, "http://sourcestest"+test.path, nil)
		must(t, err)
		request.Header.Set("Accept", test.accept)
		answer, err := server.RoundTrip(request)
		must(t, err)
		must(t, answer.Body.Close())
		if answer.StatusCode != test.want {
			t.Errorf("the answer to %s %s is %s, want %d", test.method, test.path, answer.Status, test.want)
		}
	}
}

func TestAnObjectGoesWithItsLastFinalizer(t *testing.T) {
	server := newServer(t, sourcestest.Options{})
	held := configMap("x")
	held.Finalizers = []string{"example.org/held"}
	must(t, server.Create(held))
	must(t, server.Delete(held))
	must(t, server.Get(held))
	if held.DeletionTimestamp == nil {
		t.Error("the object has no deletion timestamp")
	}
	client := api(t, server).Resource(configMaps).Namespace("a")
	_, err := client.Patch(t.Context(), "x", types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/finalizers"}]`), metav1.PatchOptions{})
	must(t, err)
	failsWith(t, "reading it", server.Get(held), metav1.StatusReasonNotFound)
}

func TestAListIsOfOneVersionWhateverHappensBetweenItsPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{})
		for _, name := range []string{"a", "b", "c"} {
			must(t, server.Create(configMap(name, "1")))
		}
		client := api(t, server).Resource(configMaps)
		first, err := client.List(t.Context(), metav1.ListOptions{Limit: 2})
		must(t, err)
		must(t, server.Update(configMap("c", "2")))
		must(t, server.Delete(configMap("a")))
		must(t, server.Create(configMap("d")))
		second, err := client.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.GetContinue()})
		must(t, err)
		if len(first.Items) != 2 || len(second.Items) != 1 || second.GetContinue() != "" || first.GetResourceVersion() != second.GetResourceVersion() {
			t.Fatalf("the pages are %v and %v", first, second)
		}
		if value, _, _ := unstructured.NestedString(second.Items[0].Object, "data", "value"); value != "1" {
			t.Errorf("the second page has %v", second.Items[0])
		}
		server.Compact()
		_, err = client.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.GetContinue()})
		failsWith(t, "a page of what is forgotten", err, metav1.StatusReasonExpired)
		_, err = client.List(t.Context(), metav1.ListOptions{ResourceVersion: "1000"})
		if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			t.Errorf("a list at a future version: %v", err)
		}
	})
}

func TestSelectorsSelectListsAndWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{})
		for _, namespace := range []string{"a", "b"} {
			for _, name := range []string{"x", "y"} {
				made := configMap(name)
				made.Namespace, made.Labels = namespace, map[string]string{"name": name}
				must(t, server.Create(made))
			}
		}
		client := api(t, server).Resource(configMaps)
		for _, test := range []struct {
			namespace string
			options   metav1.ListOptions
			want      string
		}{
			{"", metav1.ListOptions{}, "a/x a/y b/x b/y"},
			{"b", metav1.ListOptions{}, "b/x b/y"},
			{"", metav1.ListOptions{LabelSelector: "name=x"}, "a/x b/x"},
			{"a", metav1.ListOptions{FieldSelector: "metadata.name=y"}, "a/y"},
			{"", metav1.ListOptions{FieldSelector: "metadata.namespace!=a"}, "b/x b/y"},
		} {
			list, err := client.Namespace(test.namespace).List(t.Context(), test.options)
			must(t, err)
			var names []string
			for _, item := range list.Items {
				names = append(names, item.GetNamespace()+"/"+item.GetName())
			}
			same(t, fmt.Sprint(test), names, strings.Fields(test.want)...)
		}
		_, err := client.List(t.Context(), metav1.ListOptions{FieldSelector: "data.value=1"})
		failsWith(t, "another field", err, metav1.StatusReasonBadRequest)

		now, err := client.List(t.Context(), metav1.ListOptions{})
		must(t, err)
		opened, err := client.Watch(t.Context(), metav1.ListOptions{LabelSelector: "name=x", ResourceVersion: now.GetResourceVersion()})
		must(t, err)
		moved := configMap("x")
		must(t, server.Update(moved)) // Without the label, the object is gone for the watch.
		moved.Labels = map[string]string{"name": "x"}
		must(t, server.Update(moved))
		must(t, server.Update(configMap("y", "unselected")))
		for _, want := range []watch.EventType{watch.Deleted, watch.Added} {
			if got := <-opened.ResultChan(); got.Type != want {
				t.Errorf("the watch sent %v, want %s", got, want)
			}
		}
		opened.Stop()
	})
}

func TestAWatchEndsAtItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{Bookmarks: 20 * time.Second})
		begin, timeout := time.Now(), int64(50)
		opened, err := api(t, server).Resource(configMaps).Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: &timeout, AllowWatchBookmarks: true})
		must(t, err)
		bookmarks := 0
		for event := range opened.ResultChan() {
			if event.Type == watch.Bookmark {
				bookmarks++
			}
		}
		if took := time.Since(begin); took != 50*time.Second || bookmarks != 3 { // The last one comes 2 s before the end.
			t.Errorf("the watch sent %d bookmarks and ended after %v", bookmarks, took)
		}
	})
}

func TestMetadataCanBeReadAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{})
		must(t, server.Create(configMap("x", "1")))
		client, err := metadata.NewForConfig(server.Config())
		must(t, err)
		list, err := client.Resource(configMaps).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		opened, err := client.Resource(configMaps).Watch(t.Context(), metav1.ListOptions{})
		must(t, err)
		event := <-opened.ResultChan()
		opened.Stop()
		watched, is := event.Object.(*metav1.PartialObjectMetadata)
		if !is || watched.Name != "x" || len(list.Items) != 1 || list.Items[0].UID != watched.UID {
			t.Errorf("listed %v, watched %v", list.Items, event)
		}
	})
}

func TestClientsOfBuiltInTypesWriteInProtobuf(t *testing.T) {
	server := newServer(t, sourcestest.Options{})
	client, kind := client(t, server)
	var made corev1.ConfigMap
	must(t, client.Post().Namespace("a").Resource(kind.Resource()).Body(configMap("x", "1")).Do(t.Context()).Into(&made))
	must(t, client.Delete().Namespace("a").Resource(kind.Resource()).Name("x").
		Body(&metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(made.UID))}).Do(t.Context()).Error())
	if made.Data["value"] != "1" || made.UID == "" {
		t.Errorf("created %v", made)
	}
	failsWith(t, "reading it", server.Get(configMap("x")), metav1.StatusReasonNotFound)
}

func TestKindsMayHaveNoTypeAndAnIrregularPlural(t *testing.T) {
	server := newServer(t, sourcestest.Options{Kinds: []sourcestest.Kind{
		{GroupVersionKind: heroes.GroupVersion().WithKind("Hero"), Resource: "heroes"},
	}})
	made, err := api(t, server).Resource(heroes).Create(t.Context(), object("example.org/v1", "Hero", "", "pegasus"), metav1.CreateOptions{})
	must(t, err)
	read := object("example.org/v1", "Hero", "", "pegasus")
	must(t, server.Get(read))
	if read.GetUID() != made.GetUID() {
		t.Errorf("read %v, created %v", read, made)
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(heroes.GroupVersion().WithKind("HeroList"))
	must(t, server.List(&list))
	if len(list.Items) != 1 {
		t.Errorf("listed %v", list.Items)
	}
	_, err = api(t, server).Resource(heroes.GroupVersion().WithResource("heros")).Get(t.Context(), "pegasus", metav1.GetOptions{})
	failsWith(t, "another plural", err, metav1.StatusReasonNotFound)
	if err := newServer(t, sourcestest.Options{}).Create(read); err == nil || !strings.Contains(err.Error(), "add it to the scheme or to Kinds") {
		t.Errorf("creating an object of an unknown kind: %v", err)
	}
}

// A write of a reconciler may have been done although its request failed.
func TestAnAnswerThatIsLostLeavesTheWriteDone(t *testing.T) {
	server := newServer(t, sourcestest.Options{Script: []sourcestest.Fault{{Action: sourcestest.LoseAnswer, Verb: "create", Resource: "deployments"}}})
	_, err := api(t, server).Resource(deployments).Namespace("a").Create(t.Context(), object("apps/v1", "Deployment", "", "x"), metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "connection reset") {
		t.Errorf("creating failed with %v", err)
	}
	var made appsv1.Deployment
	made.Namespace, made.Name = "a", "x"
	must(t, server.Get(&made))
}
