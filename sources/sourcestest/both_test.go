package sourcestest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var (
	secrets  = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	accounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
)

// behaviour is what clients can observe of an API server. It runs against the fake server and against a
// real one, and both have to answer the same.
type behaviour struct {
	name string
	run  func(*site)
	// differs says why the fake server answers otherwise on purpose.
	differs string
}

func TestTheFakeServerBehavesAsARealOneDoes(t *testing.T) {
	config := clustertest.Shared(t).AdminConfig()
	namespace := clustertest.Namespace(t)
	define(t, config)
	behaviours := slices.Concat(writes, patches, applies, deletions, collections)
	fake := map[string][]string{}
	for _, one := range behaviours {
		synctest.Test(t, func(t *testing.T) {
			server := newServer(t, sourcestest.Options{
				ManagedFields: true, GarbageCollection: 100 * time.Millisecond,
				Kinds: []sourcestest.Kind{{GroupVersionKind: heroes.GroupVersion().WithKind("Hero"), Resource: "heroes"}},
			})
			fake[one.name] = observed(t, server.Config(), namespace, one)
		})
	}
	for _, one := range behaviours {
		t.Run(strings.ReplaceAll(one.name, " ", "_"), func(t *testing.T) {
			want := observed(t, config, namespace, one)
			same := slices.Equal(fake[one.name], want)
			switch {
			case len(want) == 0:
				t.Error("nothing was observed")
			case !same && one.differs == "":
				t.Errorf("the servers differ:\n%s", differences(fake[one.name], want))
			case same && one.differs != "":
				t.Errorf("the servers do not differ, although %s", one.differs)
			}
		})
	}
}

func differences(got, want []string) string {
	var lines []string
	for i := range max(len(got), len(want)) {
		first, second := "nothing", "nothing"
		if i < len(got) {
			first = got[i]
		}
		if i < len(want) {
			second = want[i]
		}
		if first != second {
			lines = append(lines, fmt.Sprintf("after: %s\nfake: %s\nreal: %s", want[min(max(i-1, 0), len(want)-1)], first, second))
		}
	}
	return strings.Join(lines, "\n")
}

// define creates the definition of heroes on the real API server, and removes it after the test.
func define(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := apiextensions.NewForConfig(config)
	must(t, err)
	open := true
	name := heroes.GroupResource().String()
	opened, err := client.CustomResourceDefinitions().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	must(t, err)
	defer opened.Stop()
	_, err = client.CustomResourceDefinitions().Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: heroes.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "heroes", Singular: "hero", Kind: "Hero", ListKind: "HeroList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: heroes.Version, Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &open}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // The test's own context has ended when this runs.
		defer cancel()
		opened, err := client.CustomResourceDefinitions().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		must(t, err)
		defer opened.Stop()
		must(t, client.CustomResourceDefinitions().Delete(ctx, name, metav1.DeleteOptions{}))
		for event := range opened.ResultChan() {
			if event.Type == watch.Deleted {
				return
			}
		}
		t.Error("the definition was not deleted")
	})
	for event := range opened.ResultChan() {
		made, is := event.Object.(*apiextensionsv1.CustomResourceDefinition)
		if is && slices.ContainsFunc(made.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		}) {
			return
		}
	}
	t.Fatal("the definition was not established")
}

// site is an API server and what was observed of it.
type site struct {
	t         *testing.T
	ctx       context.Context
	config    *rest.Config
	client    dynamic.Interface
	namespace string
	lines     []string
	names     map[types.UID]string // of the objects that were seen
	versions  map[types.UID]string // the last ones that were seen
}

func observed(t *testing.T, config *rest.Config, namespace string, one behaviour) []string {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := &site{t: t, ctx: ctx, config: config, client: client, namespace: namespace, names: map[types.UID]string{}, versions: map[types.UID]string{}}
	one.run(s)
	return s.lines
}

func (s *site) in(place schema.GroupVersionResource) dynamic.ResourceInterface {
	return s.client.Resource(place).Namespace(s.namespace)
}

// did records the answer to a request: the object, or the failure without its text.
func (s *site) did(what string, object *unstructured.Unstructured, err error) *unstructured.Unstructured {
	s.t.Helper()
	line := what + ": "
	var failed *apierrors.StatusError
	switch {
	case errors.As(err, &failed):
		line += fmt.Sprintf("%d %s", failed.ErrStatus.Code, failed.ErrStatus.Reason)
		if details := failed.ErrStatus.Details; details != nil {
			for _, cause := range details.Causes {
				if shown := fmt.Sprintf(" [%s %s]", cause.Type, cause.Field); !strings.HasSuffix(line, shown) { // Some are given twice.
					line += shown
				}
			}
		}
	case err != nil:
		line += err.Error()
	case object == nil:
		line += "ok"
	default:
		line += s.shown(object)
	}
	s.lines = append(s.lines, line)
	return object
}

// shown returns an object as text, with what differs from server to server left out.
func (s *site) shown(object *unstructured.Unstructured) string {
	shown, uid := object.DeepCopy(), object.GetUID()
	version := "new"
	switch object.GetResourceVersion() {
	case "":
		version = "none"
	case s.versions[uid]:
		version = "same"
	}
	s.versions[uid], s.names[uid] = object.GetResourceVersion(), object.GetName()
	shown.SetResourceVersion(version)
	metadata, _, _ := unstructured.NestedMap(shown.Object, "metadata")
	for _, name := range []string{"uid", "creationTimestamp", "deletionTimestamp"} {
		if metadata[name] != nil {
			metadata[name] = "set"
		}
	}
	if metadata["namespace"] == s.namespace {
		delete(metadata, "namespace")
	}
	var owners []any
	for _, owner := range object.GetOwnerReferences() {
		owners = append(owners, fmt.Sprintf("%s %s=%s", owner.Kind, owner.Name, s.names[owner.UID]))
	}
	if owners != nil {
		metadata["ownerReferences"] = owners
	}
	var managers []string
	for _, entry := range object.GetManagedFields() {
		managers = append(managers, fmt.Sprintf("%s %s %s %s %s timed=%t", entry.Manager, entry.Operation, entry.Subresource, entry.APIVersion, s.fields(entry.FieldsV1), entry.Time != nil))
	}
	slices.Sort(managers)
	delete(metadata, "managedFields")
	if managers != nil {
		metadata["managedFields"] = managers
	}
	shown.Object["metadata"] = metadata
	encoded, err := json.Marshal(shown.Object)
	must(s.t, err)
	return string(encoded)
}

// fields returns a set of fields, ordered, with names instead of uids.
func (s *site) fields(set *metav1.FieldsV1) string {
	text := set.GetRawString()
	for uid, name := range s.names {
		text = strings.ReplaceAll(text, string(uid), name)
	}
	var content map[string]any
	must(s.t, json.Unmarshal([]byte(text), &content))
	encoded, err := json.Marshal(content)
	must(s.t, err)
	return string(encoded)
}

func (s *site) create(place schema.GroupVersionResource, object *unstructured.Unstructured) *unstructured.Unstructured {
	made, err := s.in(place).Create(s.ctx, object, metav1.CreateOptions{})
	return s.did("create "+object.GetName(), made, err)
}

func (s *site) get(place schema.GroupVersionResource, name string) *unstructured.Unstructured {
	found, err := s.in(place).Get(s.ctx, name, metav1.GetOptions{})
	return s.did("get "+name, found, err)
}

func (s *site) update(place schema.GroupVersionResource, object *unstructured.Unstructured) *unstructured.Unstructured {
	made, err := s.in(place).Update(s.ctx, object, metav1.UpdateOptions{})
	return s.did("update "+object.GetName(), made, err)
}

func (s *site) patch(place schema.GroupVersionResource, name string, kind types.PatchType, body string, subresources ...string) {
	made, err := s.in(place).Patch(s.ctx, name, kind, []byte(body), metav1.PatchOptions{}, subresources...)
	s.did("patch "+name, made, err)
}

func (s *site) apply(place schema.GroupVersionResource, name, manager, body string, subresources ...string) {
	made, err := s.in(place).Patch(s.ctx, name, types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: manager}, subresources...)
	s.did("apply "+name+" as "+manager, made, err)
}

func (s *site) force(place schema.GroupVersionResource, name, manager, body string) {
	force := true
	made, err := s.in(place).Patch(s.ctx, name, types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: manager, Force: &force})
	s.did("force "+name+" as "+manager, made, err)
}

func (s *site) delete(place schema.GroupVersionResource, name string, options metav1.DeleteOptions) {
	s.did("delete "+name, nil, s.in(place).Delete(s.ctx, name, options))
}

// cascade deletes an object with a propagation policy.
func (s *site) cascade(place schema.GroupVersionResource, name string, policy metav1.DeletionPropagation) {
	s.delete(place, name, metav1.DeleteOptions{PropagationPolicy: &policy})
}

// watch returns a function that records the events of a watch from now on, up to a last one such as
// "DELETED x".
func (s *site) watch(place schema.GroupVersionResource, selector string) (until func(last string)) {
	now, err := s.in(place).List(s.ctx, metav1.ListOptions{LabelSelector: selector})
	must(s.t, err)
	opened, err := s.in(place).Watch(s.ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: now.GetResourceVersion()})
	must(s.t, err)
	return func(last string) {
		defer opened.Stop()
		for event := range opened.ResultChan() {
			object, is := event.Object.(*unstructured.Unstructured)
			if !is {
				s.t.Fatalf("the watch sent %v", event)
			}
			s.lines = append(s.lines, fmt.Sprintf("event %s %s", event.Type, s.shown(object)))
			if last == string(event.Type)+" "+object.GetName() {
				return
			}
		}
		s.t.Errorf("the watch ended before %s", last)
	}
}

// deletions returns a function that waits until all these objects were deleted, in any order.
func (s *site) deletions(place schema.GroupVersionResource, selector string) (until func(names ...string)) {
	opened, err := s.in(place).Watch(s.ctx, metav1.ListOptions{LabelSelector: selector})
	must(s.t, err)
	return func(names ...string) {
		defer opened.Stop()
		left := len(names)
		for event := range opened.ResultChan() {
			object, is := event.Object.(*unstructured.Unstructured)
			if is && event.Type == watch.Deleted && slices.Contains(names, object.GetName()) {
				if left--; left == 0 {
					s.lines = append(s.lines, fmt.Sprint("deleted ", names))
					return
				}
			}
		}
		s.t.Errorf("the watch ended before all of %q were deleted", names)
	}
}

// labelled returns a map of a config map or a secret, with the label that behaviours select.
func labelled(kind, name, label string, fields ...any) *unstructured.Unstructured {
	return object("v1", kind, "", name, append(fields, "metadata.labels.case", label)...)
}

// owned makes the object a dependent of others.
func owned(object *unstructured.Unstructured, block bool, owners ...*unstructured.Unstructured) *unstructured.Unstructured {
	var references []metav1.OwnerReference
	for _, owner := range owners {
		references = append(references, metav1.OwnerReference{
			APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: &block,
		})
	}
	object.SetOwnerReferences(references)
	return object
}
