package controller_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// sent is a request that an API server received.
type sent struct {
	method, path, query, content string
	body                         map[string]any
}

// answering returns an API server that gives the same answer to every request, and the last
// request that it received.
func answering(t *testing.T, answer func() *http.Response) (transport, *sent) {
	last := &sent{}
	return func(request *http.Request) *http.Response {
		*last = sent{method: request.Method, path: request.URL.Path, query: request.URL.RawQuery, content: request.Header.Get("Content-Type")}
		if request.Body != nil {
			body, err := io.ReadAll(request.Body)
			if err != nil {
				t.Error(err)
			}
			_ = json.Unmarshal(body, &last.body) // Some bodies are protobuf, and stay undecoded.
		}
		return answer()
	}, last
}

func client(t *testing.T, api transport) *controller.Client {
	t.Helper()
	m := manager(t, api, controller.Options{UserAgent: "tester"})
	add(t, m, nothing)
	return m.Client()
}

func TestPatchStatusPatchesTheStatusAloneOfTheObjectAsItWasRead(t *testing.T) {
	before := pod("x", "5")
	before.Status.Phase, before.Status.Message = corev1.PodPending, "wait"
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		status map[string]any
	}{
		"a change, a removal and an addition": {
			func(after *corev1.Pod) {
				after.Status.Phase, after.Status.Message, after.Status.Reason = corev1.PodRunning, "", "Started"
			},
			map[string]any{"phase": "Running", "message": nil, "reason": "Started"},
		},
		"more than the status": {
			func(after *corev1.Pod) {
				after.Status.Phase = corev1.PodRunning
				after.Labels, after.ResourceVersion, after.Spec.NodeName = map[string]string{"app": "red"}, "9", "node"
				after.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
			},
			map[string]any{"phase": "Running"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api, last := answering(t, func() *http.Response { return says(http.StatusOK, pod("x", "6")) })
			after := before.DeepCopy()
			test.change(after)
			if _, err := controller.PatchStatus(t.Context(), client(t, api), after, controller.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"metadata": map[string]any{"resourceVersion": "5"}, "status": test.status}
			if !reflect.DeepEqual(last.body, want) {
				t.Errorf("it sent %v, want %v", last.body, want)
			}
			if last.method != http.MethodPatch || last.path != "/api/v1/namespaces/a/pods/x/status" || last.content != string(types.MergePatchType) || last.query != "fieldManager=tester" {
				t.Errorf("it sent %+v", *last)
			}
		})
	}
}

func TestAPatchThatWouldChangeNothingIsNotSent(t *testing.T) {
	api, last := answering(t, func() *http.Response { return says(http.StatusOK, pod("x", "6")) })
	c, before := client(t, api), pod("x", "5")
	labelled := labelled(pod("x", "5"))
	for name, patch := range map[string]func() (*corev1.Pod, error){
		"merge": func() (*corev1.Pod, error) {
			return controller.Patch(t.Context(), c, before.DeepCopy(), controller.MergeFrom(before))
		},
		"strategic": func() (*corev1.Pod, error) {
			return controller.Patch(t.Context(), c, before.DeepCopy(), controller.StrategicMergeFrom(before))
		},
		"status": func() (*corev1.Pod, error) {
			return controller.PatchStatus(t.Context(), c, labelled, controller.MergeFrom(before))
		},
		"JSON": func() (*corev1.Pod, error) {
			return controller.Patch(t.Context(), c, before.DeepCopy(), controller.JSONPatch())
		},
	} {
		answer, err := patch()
		if err != nil || last.method != "" || answer.ResourceVersion != "5" || answer == before {
			t.Errorf("%s: it sent %+v and returned %v: %v", name, *last, answer, err)
		}
	}
}

func TestAConflictIsToldWithTheObjectAndChangesNoReads(t *testing.T) {
	api, _ := answering(t, func() *http.Response {
		return refusal(http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
	})
	c := client(t, api)
	after := pod("x", "5")
	after.Status.Phase = corev1.PodRunning
	patched, err := controller.PatchStatus(t.Context(), c, after, controller.MergeFrom(pod("x", "5")))
	if !apierrors.IsConflict(err) || err.Error() != "cannot patch Pod a/x: the object has been modified" || patched != nil {
		t.Errorf("it returned %v and the error %v", patched, err)
	}
	if held, found := cached[*corev1.Pod](c, types.NamespacedName{Namespace: "a", Name: "x"}); found {
		t.Errorf("the next read sees %v", held)
	}
}

func TestWhatWasWrittenTheNextReadSees(t *testing.T) {
	answer := pod("x", "6")
	answer.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "tester"}}
	api, last := answering(t, func() *http.Response { return says(http.StatusOK, answer) })
	name := types.NamespacedName{Namespace: "a", Name: "x"}
	for verb, write := range map[string]func(*controller.Client) (*corev1.Pod, error){
		http.MethodPost + " /api/v1/namespaces/a/pods?fieldManager=tester": func(c *controller.Client) (*corev1.Pod, error) {
			return controller.Create(t.Context(), c, pod("x", ""))
		},
		http.MethodPatch + " /api/v1/namespaces/a/pods/x?fieldManager=tester&force=true": func(c *controller.Client) (*corev1.Pod, error) {
			return controller.Apply[*corev1.Pod](t.Context(), c, controller.ApplyConfigurationOf(pod("x", "")), controller.Force())
		},
	} {
		c := client(t, api)
		written, err := write(c)
		if err != nil {
			t.Fatal(err)
		}
		if got := last.method + " " + last.path + "?" + last.query; got != verb {
			t.Errorf("it sent %s, want %s", got, verb)
		}
		held, found := cached[*corev1.Pod](c, name)
		if !found || !reflect.DeepEqual(held, written) || held.ResourceVersion != "6" || len(held.ManagedFields) > 0 {
			t.Errorf("the next read sees %v", held)
		}
		if all := listed[*corev1.Pod](c, controller.InNamespace("a")); len(all) != 1 || !reflect.DeepEqual(all[0], written) {
			t.Errorf("the next list is %v", all)
		}
	}
}

// labelled returns the pod with a label.
func labelled(pod *corev1.Pod) *corev1.Pod {
	pod.Labels = map[string]string{"app": "red"}
	return pod
}

// shared is a projection whose metadata shares maps and slices with the whole object.
type shared struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func (s *shared) DeepCopyObject() runtime.Object {
	return &shared{s.TypeMeta, *s.ObjectMeta.DeepCopy()}
}

func TestWhatAWriteReturnsIsTheCallersOwn(t *testing.T) {
	answer := pod("x", "6")
	answer.Labels = map[string]string{"app": "red"}
	answer.OwnerReferences = []metav1.OwnerReference{{Name: "owner", UID: "1"}}
	api, _ := answering(t, func() *http.Response { return says(http.StatusOK, answer) })
	writes := map[string]func(*controller.Client) (*corev1.Pod, error){
		"Create": func(c *controller.Client) (*corev1.Pod, error) {
			return controller.Create(t.Context(), c, pod("x", ""))
		},
		"Apply": func(c *controller.Client) (*corev1.Pod, error) {
			return controller.Apply[*corev1.Pod](t.Context(), c, controller.ApplyConfigurationOf(pod("x", "")), controller.Force())
		},
		"Merge": func(c *controller.Client) (*corev1.Pod, error) {
			return controller.Patch(t.Context(), c, pod("x", ""), controller.StrategicMerge())
		},
		"Patch": func(c *controller.Client) (*corev1.Pod, error) {
			return controller.Patch(t.Context(), c, labelled(pod("x", "5")), controller.MergeFrom(pod("x", "5")))
		},
		"PatchStatus": func(c *controller.Client) (*corev1.Pod, error) {
			return controller.PatchStatus(t.Context(), c, running("5"), controller.MergeFrom(pod("x", "5")))
		},
	}
	name := types.NamespacedName{Namespace: "a", Name: "x"}
	get := func(c *controller.Client) *corev1.Pod { held, _ := cached[*corev1.Pod](c, name); return held }
	for kept, test := range map[string]struct {
		of   controller.Option
		read func(*controller.Client) metav1.Object
	}{
		"whole": {controller.For(&corev1.Pod{}), func(c *controller.Client) metav1.Object { return get(c) }},
		"metadata": {controller.For(&controller.Metadata[corev1.Pod]{}), func(c *controller.Client) metav1.Object {
			held, _ := cached[*controller.Metadata[corev1.Pod]](c, name)
			return held
		}},
		"a projection": {
			controller.For(&shared{}, controller.Project(func(whole *corev1.Pod) *shared { return &shared{ObjectMeta: whole.ObjectMeta} })),
			func(c *controller.Client) metav1.Object { held, _ := cached[*shared](c, name); return held },
		},
	} {
		for verb, write := range writes {
			t.Run(verb+" where the cache keeps "+kept, func(t *testing.T) {
				c := reader(t, api, test.of)
				written, err := write(c)
				if err != nil {
					t.Fatal(err)
				}
				written.Labels["app"], written.OwnerReferences[0].Name = "blue", "thief"
				if held := test.read(c); held.GetLabels()["app"] != "red" || held.GetOwnerReferences()[0].Name != "owner" {
					t.Errorf("a change of the returned object is in the cache: labels %v, owners %v", held.GetLabels(), held.GetOwnerReferences())
				}
			})
		}
	}
}

func TestApplySendsTheObjectWithItsKindAndWithoutManagedFields(t *testing.T) {
	api, last := answering(t, func() *http.Response { return says(http.StatusOK, pod("x", "6")) })
	object := pod("x", "")
	object.TypeMeta = metav1.TypeMeta{}
	object.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	if _, err := controller.Apply[*corev1.Pod](t.Context(), client(t, api), controller.ApplyConfigurationOf(object), controller.Force()); err != nil {
		t.Fatal(err)
	}
	metadata, _ := last.body["metadata"].(map[string]any)
	if last.body["kind"] != "Pod" || last.body["apiVersion"] != "v1" || metadata["managedFields"] != nil || last.content != string(types.ApplyPatchType) {
		t.Errorf("it sent %s %v", last.content, last.body)
	}
	if object.Kind != "" || len(object.ManagedFields) != 1 {
		t.Error("it changed the object of the caller")
	}
}

func TestMergeSendsWhatIsSetOnConditionOfItsVersion(t *testing.T) {
	answer := pod("x", "6")
	api, last := answering(t, func() *http.Response { return says(http.StatusOK, answer) })
	object := pod("x", "5")
	object.Labels, object.Status.Phase = map[string]string{"app": "red"}, corev1.PodRunning
	c := client(t, api)
	merged, err := controller.Patch(t.Context(), c, object, controller.StrategicMerge())
	if err != nil {
		t.Fatal(err)
	}
	metadata, _ := last.body["metadata"].(map[string]any)
	if last.content != string(types.StrategicMergePatchType) || last.method != http.MethodPatch || metadata["resourceVersion"] != "5" {
		t.Errorf("it sent %s %s with the version %v", last.method, last.content, metadata["resourceVersion"])
	}
	if labels, _ := metadata["labels"].(map[string]any); labels["app"] != "red" {
		t.Errorf("it sent the labels %v", labels)
	}
	for _, part := range []string{"spec", "status"} { // A null would delete the part, and a pod's containers have no omitempty.
		if sent, found := last.body[part]; found {
			t.Errorf("it sent the %s %v", part, sent)
		}
	}
	if held, found := cached[*corev1.Pod](c, types.NamespacedName{Namespace: "a", Name: "x"}); !found || !reflect.DeepEqual(held, merged) {
		t.Errorf("the next read sees %v", held)
	}
}

func TestLiveReadsPastTheCache(t *testing.T) {
	api, last := answering(t, func() *http.Response { return says(http.StatusOK, pod("x", "6")) })
	c := client(t, api)
	live, err := controller.GetLive[*corev1.Pod](t.Context(), c, types.NamespacedName{Namespace: "a", Name: "x"})
	if err != nil || live.ResourceVersion != "6" || last.path != "/api/v1/namespaces/a/pods/x" {
		t.Errorf("it read %v from %s: %v", live, last.path, err)
	}
	api, _ = answering(t, func() *http.Response { return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "no such pod") })
	_, err = controller.GetLive[*corev1.Pod](t.Context(), client(t, api), types.NamespacedName{Namespace: "a", Name: "x"})
	if !apierrors.IsNotFound(err) || err.Error() != "cannot get Pod a/x: no such pod" {
		t.Errorf("the error is %v", err)
	}
}

func TestAKindThatNoControllerDeclaresIsAnErrorThatSaysSo(t *testing.T) {
	c, name := client(t, silent), types.NamespacedName{Namespace: "a", Name: "x"}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}
	for call, does := range map[string]func() error{
		"Get":      func() error { _, err := controller.Get[*corev1.Secret](t.Context(), c, name); return err },
		"GetLive":  func() error { _, err := controller.GetLive[*corev1.Secret](t.Context(), c, name); return err },
		"List":     func() error { _, err := controller.List[*corev1.Secret](t.Context(), c); return err },
		"ListLive": func() error { _, err := controller.ListLive[*corev1.Secret](t.Context(), c); return err },
		"Create":   func() error { _, err := controller.Create(t.Context(), c, secret); return err },
		"Update":   func() error { _, err := controller.Update(t.Context(), c, secret); return err },
		"Patch": func() error {
			_, err := controller.Patch(t.Context(), c, secret, controller.StrategicMerge())
			return err
		},
		"Apply": func() error {
			_, err := controller.Apply[*corev1.Secret](t.Context(), c, controller.ApplyConfigurationOf(secret))
			return err
		},
		"Delete":      func() error { return controller.Delete(t.Context(), c, secret) },
		"DeleteAllOf": func() error { return controller.DeleteAllOf[*corev1.Secret](t.Context(), c, nil) },
		"Scale":       func() error { _, err := controller.Scale(t.Context(), c, secret, 1); return err },
		"NewClaim":    func() error { _, err := controller.NewClaim[*corev1.Secret](c); return err },
	} {
		if err := does(); !errors.Is(err, controller.ErrNotDeclared) || !strings.Contains(err.Error(), "name it in For, Owns, Watches or Uses") {
			t.Errorf("%s returns %v", call, err)
		}
	}
}

// The cache keeps metadata, from which Transform removes a part.
func TestTransformLeavesWhatAWriteReturnsAsItIs(t *testing.T) {
	answer := pod("x", "6")
	answer.Annotations = map[string]string{"big": "yes"}
	api, _ := answering(t, func() *http.Response { return says(http.StatusCreated, answer) })
	c := reader(t, api, controller.For(&controller.Metadata[corev1.Pod]{}, controller.Transform(func(object streams.Object) {
		delete(object.GetAnnotations(), "big")
	})))
	written, err := controller.Create(t.Context(), c, pod("x", ""))
	if err != nil || written.Annotations["big"] != "yes" {
		t.Errorf("the creation returns the annotations %v: %v", written.Annotations, err)
	}
	if held, found := cached[*controller.Metadata[corev1.Pod]](c, types.NamespacedName{Namespace: "a", Name: "x"}); !found || len(held.Annotations) > 0 {
		t.Errorf("the cache has the annotations %v", held.Annotations)
	}
}

// A float64 has 53 bits.
func TestLargeIntegersAreSentAsTheyAre(t *testing.T) {
	const large = int64(1)<<53 + 1
	var body string
	api := func(request *http.Request) *http.Response {
		read, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		body = string(read)
		return says(http.StatusOK, pod("x", "6"))
	}
	c := client(t, api)
	wanted := pod("x", "")
	wanted.Spec.TerminationGracePeriodSeconds = new(large)
	if _, err := controller.Apply[*corev1.Pod](t.Context(), c, controller.ApplyConfigurationOf(wanted)); err != nil || !strings.Contains(body, "9007199254740993") {
		t.Errorf("an apply sends %s: %v", body, err)
	}
	before, after := pod("x", "5"), pod("x", "5")
	before.Spec.TerminationGracePeriodSeconds, after.Spec.TerminationGracePeriodSeconds = new(large-1), new(large)
	if _, err := controller.Patch(t.Context(), c, after, controller.MergeFrom(before)); err != nil || !strings.Contains(body, "9007199254740993") {
		t.Errorf("a patch sends %s: %v", body, err)
	}
}

func TestOptionsOfTheCallerAreNotChanged(t *testing.T) {
	api, last := answering(t, func() *http.Response { return says(http.StatusOK, pod("x", "6")) })
	c := client(t, api)
	shared := append(make([]controller.WriteOption, 0, 2), controller.FieldManager("me"))
	dry := slices.Insert(shared, 1, controller.DryRun()) // In the same memory.
	if _, err := controller.UpdateStatus(t.Context(), c, pod("x", "5"), shared...); err != nil {
		t.Fatal(err)
	}
	if _, err := controller.Update(t.Context(), c, pod("x", "5"), dry...); err != nil || !strings.Contains(last.query, "dryRun=All") || strings.HasSuffix(last.path, "/status") {
		t.Errorf("it sent %s?%s: %v", last.path, last.query, err)
	}
}

func TestAWriteOfAMapEntersTheCacheOfTheTypedKind(t *testing.T) {
	api, _ := answering(t, func() *http.Response { return says(http.StatusCreated, running("6")) })
	for kept, of := range map[string]controller.Option{
		"whole": controller.For(&corev1.Pod{}), "as a projection": controller.For(&phase{}, controller.Project(phaseOf)), "as metadata": controller.For(&controller.Metadata[corev1.Pod]{}),
	} {
		m, object := manager(t, api, controller.Options{}), blank(podKind)
		object.SetNamespace("a")
		object.SetName("x")
		if err := m.Add("x", nothing, of, controller.Uses(blank(podKind))); err != nil {
			t.Fatal(err)
		}
		written, err := controller.Create(t.Context(), m.Client(), object)
		if err != nil || written.GroupVersionKind() != podKind {
			t.Fatalf("the answer is a %v: %v", written.GroupVersionKind(), err)
		}
		for range 2 {
			if _, err := controller.Apply[*unstructured.Unstructured](t.Context(), m.Client(), controller.ApplyConfigurationOf(object)); err != nil {
				t.Error(err)
			}
		}
		if held, found := m.Cache().Stores()[0].Get(podX); !found || held.GetResourceVersion() != "6" {
			t.Errorf("the cache, which keeps the kind %s, has %v", kept, held)
		}
	}
}

func TestUsesBesideAWatchThatLacksObjectsIsRefused(t *testing.T) {
	uses := []controller.Option{controller.For(&corev1.ConfigMap{}), controller.Uses(&corev1.Secret{})}
	for name, watches := range map[string]controller.Option{
		"a selector": controller.Owns(&corev1.Secret{}, controller.LabelSelector("app=web")), "on demand": controller.Owns(&corev1.Secret{}, controller.OnDemand()),
	} {
		owns := []controller.Option{controller.For(&corev1.ConfigMap{}), watches}
		for _, order := range [][][]controller.Option{{uses, owns}, {owns, uses}} {
			m := manager(t, silent, controller.Options{})
			if err := m.Add("one", nothing, order[0]...); err != nil {
				t.Fatal(err)
			}
			if err := m.Add("two", nothing, order[1]...); err == nil || !strings.Contains(err.Error(), "the reads of the first would miss objects") {
				t.Errorf("%s: the error is %v", name, err)
			}
		}
	}
}

func TestNilIsAnErrorAndNoPanic(t *testing.T) {
	c := client(t, onePod)
	for name, call := range map[string]func() error{
		"Apply of nil": func() error {
			_, err := controller.Apply[*corev1.Pod](t.Context(), c, nil)
			return err
		},
		"Apply of a nil object": func() error {
			_, err := controller.Apply[*corev1.Pod](t.Context(), c, controller.ApplyConfigurationOf(nil))
			return err
		},
		"an index without a name": func() error {
			_, err := controller.List[*corev1.Pod](t.Context(), c, controller.InIndex("", "x"))
			return err
		},
		"For of nil": func() error { return manager(t, onePod, controller.Options{}).Add("nil", nothing, controller.For(nil)) },
		"Uses of nil": func() error {
			return manager(t, onePod, controller.Options{}).Add("nil", nothing, controller.For(&corev1.Pod{}), controller.Uses(nil))
		},
		"an option that is nil": func() error {
			return manager(t, onePod, controller.Options{}).Add("nil", nothing, controller.For(&corev1.Pod{}), nil)
		},
		"an input option that is nil": func() error {
			return manager(t, onePod, controller.Options{}).Add("nil", nothing, controller.For(&corev1.Pod{}, nil))
		},
	} {
		if err := call(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := controller.List[*corev1.Pod](t.Context(), c, nil); err != nil {
		t.Errorf("a nil read option: %v", err)
	}
}
