package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// phase is a projection of a pod, computed from the whole pod.
type phase struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	is corev1.PodPhase
}

func (p *phase) DeepCopyObject() runtime.Object { copied := *p; return &copied }

func phaseOf(whole *corev1.Pod) *phase { return &phase{is: whole.Status.Phase} }

// phaseJSON is the same projection, decoded by the field names of the API.
type phaseJSON struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Phase corev1.PodPhase `json:"phase,omitempty"`
	} `json:"status"`
}

func (p *phaseJSON) DeepCopyObject() runtime.Object { copied := *p; return &copied }

var (
	podKind = corev1.SchemeGroupVersion.WithKind("Pod")
	podX    = types.NamespacedName{Namespace: "a", Name: "x"}
)

func running(version string) *corev1.Pod {
	made := pod("x", version)
	made.Status.Phase, made.Labels = corev1.PodRunning, map[string]string{"app": "red"}
	return made
}

// reader returns the client of a manager with one controller. The option says how pods are kept.
func reader(t *testing.T, api transport, of controller.Option) *controller.Client {
	t.Helper()
	m := manager(t, api, controller.Options{UserAgent: "tester"})
	if err := m.Add("pods", nothing, of); err != nil {
		t.Fatal(err)
	}
	return m.Client()
}

func TestAWriteOfTheWholeEntersTheCacheAsWhatIsKept(t *testing.T) {
	answer := running("6")
	answer.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "tester"}}
	for name, test := range map[string]struct {
		of   controller.Option
		read func(*controller.Client) (version string, label string, phase corev1.PodPhase)
	}{
		"a projection": {controller.For(&phase{}, controller.Project(phaseOf)), func(c *controller.Client) (string, string, corev1.PodPhase) {
			held, found := cached[*phase](c, podX)
			if !found || len(listed[*phase](c, controller.InNamespace("a"))) != 1 {
				return "", "", ""
			}
			return held.ResourceVersion, "red", held.is
		}},
		"a projection by names": {controller.For(&phaseJSON{}, controller.OfKind(podKind)), func(c *controller.Client) (string, string, corev1.PodPhase) {
			held, found := cached[*phaseJSON](c, podX)
			if !found {
				return "", "", ""
			}
			return held.ResourceVersion, held.Labels["app"], held.Status.Phase
		}},
		"metadata": {controller.For(&controller.Metadata[corev1.Pod]{}), func(c *controller.Client) (string, string, corev1.PodPhase) {
			held, found := cached[*controller.Metadata[corev1.Pod]](c, podX)
			if !found || len(held.ManagedFields) > 0 {
				return "", "", ""
			}
			return held.ResourceVersion, held.Labels["app"], corev1.PodRunning
		}},
	} {
		t.Run(name, func(t *testing.T) {
			api, last := answering(t, func() *http.Response { return says(http.StatusOK, answer) })
			c := reader(t, api, test.of)
			written, err := controller.Apply[*corev1.Pod](t.Context(), c, controller.ApplyConfigurationOf(pod("x", "")), controller.Force())
			if err != nil || written.Status.Phase != corev1.PodRunning || last.path != "/api/v1/namespaces/a/pods/x" {
				t.Fatalf("%s answered %v: %v", last.path, written, err)
			}
			if version, label, phase := test.read(c); version != "6" || label != "red" || phase != corev1.PodRunning {
				t.Errorf("the next read sees %q, %q and %q", version, label, phase)
			}
			live, err := controller.GetLive[*corev1.Pod](t.Context(), c, podX)
			if err != nil || live.Labels["app"] != "red" {
				t.Errorf("Live returns %v: %v", live, err)
			}
			_, err = controller.Get[*corev1.Pod](t.Context(), c, podX)
			if !errors.Is(err, controller.ErrPartial) || !strings.Contains(err.Error(), "the cache keeps Pod as *") {
				t.Errorf("Get of the whole object fails with %v", err)
			}
		})
	}
}

func TestAProjectionIsReadLiveAsWhatItIs(t *testing.T) {
	api, _ := answering(t, func() *http.Response { return says(http.StatusOK, running("6")) })
	c := reader(t, api, controller.For(&phase{}, controller.Project(phaseOf)))
	live, err := controller.GetLive[*phase](t.Context(), c, podX)
	if err != nil || live.is != corev1.PodRunning || live.Name != "x" || live.ResourceVersion != "6" {
		t.Errorf("Live returns %+v: %v", live, err)
	}
}

func TestMetadataCanBePatchedAlone(t *testing.T) {
	var accepted string
	partial := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: running("6").ObjectMeta,
	}
	api, last := answering(t, func() *http.Response { return says(http.StatusOK, partial) })
	c := reader(t, func(request *http.Request) *http.Response {
		accepted = request.Header.Get("Accept")
		return api(request)
	}, controller.For(&controller.Metadata[corev1.Pod]{}))
	before := &controller.Metadata[corev1.Pod]{ObjectMeta: pod("x", "5").ObjectMeta}
	after := before.DeepCopy()
	after.Labels = map[string]string{"app": "red"}
	written, err := controller.Patch(t.Context(), c, after, controller.MergeFrom(before))
	if err != nil || written.ResourceVersion != "6" {
		t.Fatalf("it answered %v: %v", written, err)
	}
	body, _ := json.Marshal(last.body)
	if string(body) != `{"metadata":{"labels":{"app":"red"},"resourceVersion":"5"}}` || !strings.Contains(accepted, "as=PartialObjectMetadata;") {
		t.Errorf("it sent %s, and accepts %s", body, accepted)
	}
	if held, found := cached[*controller.Metadata[corev1.Pod]](c, podX); !found || !reflect.DeepEqual(held, written) {
		t.Errorf("the next read sees %v", held)
	}
}

func TestWhatIsNotAllOfAnObjectCannotBeWritten(t *testing.T) {
	c := reader(t, silent, controller.For(&phase{}, controller.Project(phaseOf)))
	part := &phase{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}
	create := func() error { _, err := controller.Create(t.Context(), c, part); return err }
	apply := func() error {
		_, err := controller.Apply[*phase](t.Context(), c, controller.ApplyConfigurationOf(part))
		return err
	}
	patch := func() error {
		_, err := controller.Patch(t.Context(), c, part, controller.MergeFrom(part))
		return err
	}
	for _, write := range []func() error{create, apply, patch} {
		if err := write(); !errors.Is(err, controller.ErrPartial) || !strings.Contains(err.Error(), "a *controller_test.phase is a part of a Pod") {
			t.Errorf("the error is %v", err)
		}
	}
	c = reader(t, silent, controller.For(&controller.Metadata[corev1.Pod]{}))
	metadata := &controller.Metadata[corev1.Pod]{ObjectMeta: part.ObjectMeta}
	create = func() error { _, err := controller.Create(t.Context(), c, metadata); return err }
	apply = func() error {
		_, err := controller.Apply[*controller.Metadata[corev1.Pod]](t.Context(), c, controller.ApplyConfigurationOf(metadata))
		return err
	}
	for _, write := range []func() error{create, apply} {
		if err := write(); !errors.Is(err, controller.ErrPartial) {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestAKindIsKeptInOneForm(t *testing.T) {
	for name, test := range map[string]struct {
		more controller.Option
		want string
	}{
		"whole and as metadata": {controller.For(&controller.Metadata[corev1.Pod]{}),
			"Pod is watched twice, as *v1.Pod and as *sources.Metadata["},
		"one type for two kinds": {controller.For(&corev1.Pod{}, controller.OfKind(corev1.SchemeGroupVersion.WithKind("Hod"))),
			"*v1.Pod is the type of /v1, Kind=Pod already, and cannot be the type of /v1, Kind=Hod too; define another type"},
		"with other fields": {controller.For(&corev1.Pod{}, controller.FieldSelector("spec.nodeName=worker-1")),
			"Pod is watched twice, with different options"},
		"with a selector that is none": {controller.For(&corev1.Secret{}, controller.LabelSelector("app in")),
			`Secret: watch: LabelSelector is "app in", which is not a selector`},
	} {
		m := manager(t, silent, controller.Options{})
		add(t, m, nothing)
		err := m.Add("more", nothing, test.more)
		if err == nil || !strings.HasPrefix(err.Error(), `adding controller "more": `+test.want) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// The type that a controller names is the type that its reconciler reads. Here it is decoded from
// the list and the watch.
func TestAControllerReadsItsProjectionFromTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := running("4")
		m := manager(t, func(request *http.Request) *http.Response {
			if request.URL.Query().Get("watch") == "true" {
				return watched(request, "5", whole)
			}
			return onePod(request)
		}, controller.Options{Namespaces: []string{"a"}, PageSize: -1})
		read := make(chan corev1.PodPhase, 1)
		err := m.Add("pods", func(_ context.Context, request operators.Request) (time.Duration, error) {
			held, _ := cached[*phase](m.Client(), request.NamespacedName)
			read <- held.is
			return 0, nil
		}, controller.For(&phase{}, controller.Project(phaseOf)))
		if err != nil {
			t.Fatal(err)
		}
		group := lifecycle.New(t.Context())
		group.Go("manager", m.Run)
		if got := <-read; got != corev1.PodRunning {
			t.Errorf("it read %q", got)
		}
		if err := m.Cache().Wait(t.Context(), cache.Settled); err != nil {
			t.Error(err)
		}
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestObjectsAreFoundByTheIndexesOfTheirInputs(t *testing.T) {
	api := func(*http.Request) *http.Response { return says(http.StatusOK, running("6")) }
	c := reader(t, api, controller.For(&corev1.Pod{}, controller.Indexed(
		cache.LabelIndexer("app"),
		cache.FieldIndexer("phase", func(pod *corev1.Pod) string { return string(pod.Status.Phase) }))))
	if _, err := controller.Create(t.Context(), c, pod("x", "")); err != nil {
		t.Fatal(err)
	}
	for index, value := range map[string]string{"app": "red", "phase": "Running"} {
		if found := listed[*corev1.Pod](c, controller.InIndex(index, value)); len(found) != 1 {
			t.Errorf("the index %s has %d objects for %s, want the one that was created", index, len(found), value)
		}
		if found := listed[*corev1.Pod](c, controller.InIndex(index, "other")); len(found) != 0 {
			t.Errorf("the index %s has %d objects for another value, want none", index, len(found))
		}
	}
}
