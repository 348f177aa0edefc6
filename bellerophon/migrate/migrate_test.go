package migrate_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bellerophon-io/bellerophon/bellerophon/migrate"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// world is a real API server with a kind of its own, which has the versions v1 and v2.
type world struct {
	*testing.T
	config      *rest.Config
	definitions apiextensions.CustomResourceDefinitionInterface
	objects     dynamic.Interface
	plural      string
	name        string // of the definition
	namespace   string
}

const group = "migrate.bellerophon.io"

func newWorld(t *testing.T, plural string, subresources *apiextensionsv1.CustomResourceSubresources) *world {
	t.Helper()
	config := clustertest.Shared(t).AdminConfig()
	client, err := apiextensions.NewForConfig(config)
	w := &world{T: t, config: config, plural: plural, name: plural + "." + group, namespace: clustertest.Namespace(t)}
	w.must(err)
	w.definitions = client.CustomResourceDefinitions()
	w.objects, err = dynamic.NewForConfig(config)
	w.must(err)
	all := true
	made := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: strings.ToUpper(plural[:1]) + plural[1:]},
	}}
	for _, version := range []string{"v1", "v2"} {
		made.Spec.Versions = append(made.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: version == "v1", Subresources: subresources,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &all}},
		})
	}
	_, err = w.definitions.Create(t.Context(), made, metav1.CreateOptions{})
	w.must(err)
	t.Cleanup(func() { w.must(w.definitions.Delete(context.Background(), w.name, metav1.DeleteOptions{})) })
	watcher, err := w.definitions.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + w.name})
	w.must(err)
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		held, is := event.Object.(*apiextensionsv1.CustomResourceDefinition)
		if is && event.Type != watch.Deleted && slices.ContainsFunc(held.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		}) {
			return w
		}
	}
	t.Fatal("the definition is not established")
	return nil
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) of(version string) dynamic.ResourceInterface {
	return w.objects.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: w.plural}).Namespace(w.namespace)
}

// make makes objects, which are stored in the version of the moment.
func (w *world) make(names ...string) (made []*unstructured.Unstructured) {
	w.Helper()
	for _, name := range names {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"horse": name}}}
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: strings.ToUpper(w.plural[:1]) + w.plural[1:]})
		object.SetName(name)
		stored, err := w.of("v1").Create(w.Context(), object, metav1.CreateOptions{})
		w.must(err)
		made = append(made, stored)
	}
	return made
}

// change changes the definition.
func (w *world) change(change func(*apiextensionsv1.CustomResourceDefinition)) {
	w.Helper()
	held, err := w.definitions.Get(w.Context(), w.name, metav1.GetOptions{})
	w.must(err)
	change(held)
	_, err = w.definitions.Update(w.Context(), held, metav1.UpdateOptions{})
	w.must(err)
}

// store lets the definition store another version.
func (w *world) store(version string) {
	w.Helper()
	w.change(func(held *apiextensionsv1.CustomResourceDefinition) {
		for i := range held.Spec.Versions {
			held.Spec.Versions[i].Storage = held.Spec.Versions[i].Name == version
		}
	})
}

func (w *world) stored() []string {
	w.Helper()
	held, err := w.definitions.Get(w.Context(), w.name, metav1.GetOptions{})
	w.must(err)
	return held.Status.StoredVersions
}

// wantOnly checks that all objects are stored in one version: with the other one removed, the API server could not read
// the rest.
func (w *world) wantOnly(version string) {
	w.Helper()
	if got := w.stored(); !slices.Equal(got, []string{version}) {
		w.Errorf("the stored versions are %v, want only %s", got, version)
	}
	w.change(func(held *apiextensionsv1.CustomResourceDefinition) {
		held.Spec.Versions = slices.DeleteFunc(held.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name != version })
	})
	listed, err := w.of(version).List(w.Context(), metav1.ListOptions{})
	if err != nil || len(listed.Items) != 3 {
		w.Errorf("without the other version, %d objects can be listed, want three; %v", len(listed.Items), err)
	}
}

func (w *world) run(config *rest.Config, options migrate.Options) (kind migrate.Kind, err error) {
	w.Helper()
	options.Definitions = []string{w.name}
	err = migrate.Run(w.Context(), config, options, func(found migrate.Kind) { kind = found })
	return kind, err
}

// between returns a configuration whose requests pass a function, which may answer them by itself.
func (w *world) between(answer func(*http.Request) *http.Response) *rest.Config {
	config := rest.CopyConfig(w.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next, answer} })
	return config
}

type transport struct {
	http.RoundTripper
	answer func(*http.Request) *http.Response
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if answer := t.answer(request); answer != nil {
		return answer, nil
	}
	return t.RoundTripper.RoundTrip(request)
}

// refusal returns the answer of an API server that refuses a request.
func refusal(request *http.Request, status metav1.Status) *http.Response {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	status.Status = metav1.StatusFailure
	body, _ := json.Marshal(status)
	return &http.Response{StatusCode: int(status.Code), Status: http.StatusText(int(status.Code)), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(body))), Request: request}
}

func isWrite(request *http.Request, plural string) bool {
	return request.Method == http.MethodPatch && strings.Contains(request.URL.Path, "/"+plural+"/")
}

func TestObjectsAreStoredInTheNewVersionAndTheirContentStays(t *testing.T) {
	for plural, subresources := range map[string]*apiextensionsv1.CustomResourceSubresources{
		"plains": nil, "statuses": {Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
	} {
		t.Run(plural, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, plural, subresources)
			made := w.make("arion", "pegasus", "xanthos")
			w.store("v2")
			if got := w.stored(); !slices.Equal(got, []string{"v1", "v2"}) {
				t.Fatalf("the stored versions are %v", got)
			}
			would, err := w.run(w.config, migrate.Options{DryRun: true})
			if err != nil || would.Objects != 3 || would.Stores != "v2" || !would.IsOld() || len(w.stored()) != 2 {
				t.Errorf("a dry run says %+v, %v, and left the versions %v", would, err, w.stored())
			}
			var progress []string
			did, err := w.run(w.config, migrate.Options{Progress: func(_ string, done, left int) { progress = append(progress, fmt.Sprint(done, left)) }})
			if err != nil || did.Objects != 3 || !slices.Equal(progress, []string{"3 0"}) {
				t.Errorf("the run says %+v, %v, with the progress %q", did, err, progress)
			}
			for _, before := range made {
				after, err := w.of("v2").Get(t.Context(), before.GetName(), metav1.GetOptions{})
				w.must(err)
				if after.GetResourceVersion() == before.GetResourceVersion() {
					t.Errorf("%s was not written", before.GetName())
				}
				after.SetResourceVersion(before.GetResourceVersion())
				after.SetAPIVersion(before.GetAPIVersion())
				before.SetManagedFields(nil) // They name the version.
				after.SetManagedFields(nil)
				if fmt.Sprint(before.Object) != fmt.Sprint(after.Object) {
					t.Errorf("the object changed from %v to %v", before.Object, after.Object)
				}
			}

			last, err := w.of("v2").List(t.Context(), metav1.ListOptions{})
			w.must(err)
			again, err := w.run(w.config, migrate.Options{})
			if err != nil || again.IsOld() {
				t.Errorf("the second run says %+v, %v", again, err)
			}
			now, err := w.of("v2").List(t.Context(), metav1.ListOptions{})
			w.must(err)
			for i := range now.Items {
				if now.Items[i].GetResourceVersion() != last.Items[i].GetResourceVersion() {
					t.Errorf("the second run wrote %s", now.Items[i].GetName())
				}
			}
			w.wantOnly("v2")
		})
	}
}

func TestAnObjectThatCannotBeWrittenIsNamedAndTheRestIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "refusals", nil)
	w.make("arion", "pegasus", "xanthos")
	w.store("v2")
	var written atomic.Int64
	config := w.between(func(request *http.Request) *http.Response {
		if isWrite(request, w.plural) {
			written.Add(1)
			if strings.HasSuffix(request.URL.Path, "/pegasus") {
				return refusal(request, metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "a policy says no"})
			}
		}
		return nil
	})
	_, err := w.run(config, migrate.Options{})
	if err == nil || !strings.Contains(err.Error(), w.namespace+"/pegasus: a policy says no") || !strings.Contains(err.Error(), "1 of 3 objects") {
		t.Errorf("the error is %v", err)
	}
	if got := w.stored(); written.Load() != 3 || len(got) != 2 {
		t.Errorf("%d objects were tried, and the stored versions are %v", written.Load(), got)
	}
	if _, err := w.run(w.config, migrate.Options{}); err != nil {
		t.Error(err)
	}
	w.wantOnly("v2")
}

func TestADefinitionThatGoesBackMeanwhileIsFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "changes", nil)
	w.make("arion", "pegasus", "xanthos")
	w.store("v2")
	var once atomic.Bool
	config := w.between(func(request *http.Request) *http.Response {
		if isWrite(request, w.plural) && strings.HasSuffix(request.URL.Path, "/pegasus") && !once.Swap(true) {
			w.store("v1") // So arion is stored in v2 alone.
		}
		return nil
	})
	did, err := w.run(config, migrate.Options{})
	if err != nil || did.Stores != "v1" {
		t.Errorf("the run says %+v, %v", did, err)
	}
	w.wantOnly("v1")
}

func TestAListThatExpiresGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "pages", nil)
	w.make("arion", "pegasus", "xanthos")
	w.store("v2")
	var once atomic.Bool
	config := w.between(func(request *http.Request) *http.Response {
		query := request.URL.Query()
		if request.Method != http.MethodGet || !query.Has("limit") {
			return nil
		}
		query.Set("limit", "1")
		request.URL.RawQuery = query.Encode()
		token := query.Get("continue")
		if token == "" || once.Swap(true) {
			return nil
		}
		// This is the API server's answer after a compaction: its token names no version of the past.
		decoded, err := base64.RawURLEncoding.DecodeString(token)
		var content map[string]any
		if err = errors.Join(err, json.Unmarshal(decoded, &content)); err != nil {
			t.Error(err)
			return nil
		}
		content["rv"] = -1
		decoded, _ = json.Marshal(content)
		return refusal(request, metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old",
			ListMeta: metav1.ListMeta{Continue: base64.RawURLEncoding.EncodeToString(decoded)}})
	})
	did, err := w.run(config, migrate.Options{})
	if err != nil || did.Objects != 3 || !once.Load() {
		t.Errorf("the run says %+v, %v", did, err)
	}
	w.wantOnly("v2")
}

func TestAKindThatCannotBeMigratedSaysWhatToDo(t *testing.T) {
	config := clustertest.Shared(t).AdminConfig()
	ignore := func(migrate.Kind) {}
	err := migrate.Run(t.Context(), config, migrate.Options{Definitions: []string{"heroes"}}, ignore)
	if err == nil || !strings.Contains(err.Error(), "no CustomResourceDefinition heroes; the name has the form plural.group") {
		t.Errorf("of an unknown name it says %v", err)
	}
	w := newWorld(t, "unserved", nil)
	w.store("v2")
	w.change(func(held *apiextensionsv1.CustomResourceDefinition) {
		for i := range held.Spec.Versions {
			held.Spec.Versions[i].Served = false
		}
	})
	if _, err := w.run(config, migrate.Options{}); err == nil || !strings.Contains(err.Error(), "serves no version") {
		t.Errorf("of a definition that serves nothing it says %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := migrate.Run(cancelled, config, migrate.Options{Definitions: []string{w.name}}, ignore); !errors.Is(err, context.Canceled) {
		t.Errorf("when it is interrupted it says %v", err)
	}
}
