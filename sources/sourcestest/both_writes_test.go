package sourcestest_test

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// hero returns a custom object with fields.
func hero(name string, fields ...any) *unstructured.Unstructured {
	return object("example.org/v1", "Hero", "", name, fields...)
}

func with(object *unstructured.Unstructured, fields ...any) *unstructured.Unstructured {
	set := hero("", fields...)
	made := object.DeepCopy()
	for name, value := range set.Object {
		if name != "apiVersion" && name != "kind" && name != "metadata" {
			made.Object[name] = value
		}
	}
	return made
}

var writes = []behaviour{
	{name: "objects are created once", run: func(s *site) {
		s.create(configMaps, labelled("ConfigMap", "once", "once", "data.value", "1"))
		s.create(configMaps, labelled("ConfigMap", "once", "once"))
		s.create(configMaps, object("v1", "ConfigMap", "", "", "data.value", "1"))
		s.create(configMaps, object("v1", "ConfigMap", "", "versioned", "metadata.resourceVersion", "1"))
		s.create(configMaps, object("v1", "ConfigMap", "elsewhere", "elsewhere"))
		s.get(configMaps, "once")
		s.get(configMaps, "never")
	}},
	{name: "names are generated", run: func(s *site) {
		for range 2 {
			made, err := s.in(configMaps).Create(s.ctx, object("v1", "ConfigMap", "", "", "metadata.generateName", "generated-"), metav1.CreateOptions{})
			must(s.t, err)
			s.did("prefix and length", hero("", "prefix", made.GetName()[:10], "length", int64(len(made.GetName()))), nil)
		}
	}},
	{name: "an update replaces an object if its version is the current one", run: func(s *site) {
		first := s.create(configMaps, labelled("ConfigMap", "updated", "updated", "data.value", "1"))
		s.update(configMaps, with(first, "data.value", "2"))
		s.update(configMaps, with(first, "data.value", "3"))
		unconditional := with(first, "data.value", "4")
		unconditional.SetResourceVersion("")
		last := s.update(configMaps, unconditional)
		s.update(configMaps, last)
		other := last.DeepCopy()
		other.SetUID("another")
		s.update(configMaps, other)
		s.update(configMaps, object("v1", "ConfigMap", "", "never"))
		reset := last.DeepCopy()
		reset.SetManagedFields([]metav1.ManagedFieldsEntry{{}})
		s.update(configMaps, reset)
	}},
	{name: "a status is written by its subresource alone", run: func(s *site) {
		made := s.create(heroes, hero("status", "spec.wings", int64(2), "status.flies", true))
		s.update(heroes, with(made, "spec.wings", int64(3), "status.flies", true))
		made = s.get(heroes, "status")
		updated, err := s.in(heroes).UpdateStatus(s.ctx, with(made, "spec.wings", int64(4), "status.flies", true), metav1.UpdateOptions{})
		s.did("update the status", updated, err)
		s.patch(heroes, "status", types.MergePatchType, `{"spec":{"wings":5},"status":{"flies":false}}`, "status")
		s.patch(heroes, "status", types.MergePatchType, `{"spec":{"wings":5},"status":{"flies":true}}`)
		s.patch(heroes, "status", types.MergePatchType, `{"metadata":{"labels":{"a":"b"}}}`)
	}},
	{name: "the generation of a custom resource counts changes outside of its metadata and status", run: func(s *site) {
		s.create(heroes, hero("generation", "wings", int64(2)))
		for _, patch := range []string{`{"wings":3}`, `{"metadata":{"labels":{"a":"b"}}}`, `{"status":{"flies":true}}`, `{"wings":null}`, `{"spec":{"wings":2}}`, `{"spec":null}`} {
			s.patch(heroes, "generation", types.MergePatchType, patch)
		}
		s.patch(heroes, "generation", types.MergePatchType, `{"status":{"flies":true}}`, "status")
		s.apply(heroes, "generation", "me", `{"apiVersion":"example.org/v1","kind":"Hero","wings":4}`)
		s.apply(heroes, "generation", "me", `{"apiVersion":"example.org/v1","kind":"Hero"}`)
	}},
	{name: "a dry run changes nothing", run: func(s *site) {
		dry := []string{metav1.DryRunAll}
		tried, err := s.in(configMaps).Create(s.ctx, labelled("ConfigMap", "dry", "dry", "data.value", "1"), metav1.CreateOptions{DryRun: dry})
		s.did("create", tried, err)
		s.get(configMaps, "dry")
		made := s.create(configMaps, labelled("ConfigMap", "dry", "dry", "data.value", "1"))
		tried, err = s.in(configMaps).Create(s.ctx, labelled("ConfigMap", "dry", "dry"), metav1.CreateOptions{DryRun: dry})
		s.did("create it again", tried, err)
		tried, err = s.in(configMaps).Update(s.ctx, with(made, "data.value", "2"), metav1.UpdateOptions{DryRun: dry})
		s.did("update", tried, err)
		tried, err = s.in(configMaps).Patch(s.ctx, "dry", types.MergePatchType, []byte(`{"data":{"value":"3"}}`), metav1.PatchOptions{DryRun: dry})
		s.did("patch", tried, err)
		tried, err = s.in(configMaps).Patch(s.ctx, "dry", types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","data":{"other":"3"}}`), metav1.PatchOptions{DryRun: dry, FieldManager: "me"})
		s.did("apply", tried, err)
		tried, err = s.in(configMaps).Patch(s.ctx, "new", types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}`), metav1.PatchOptions{DryRun: dry, FieldManager: "me"})
		s.did("apply a new one", tried, err)
		s.get(configMaps, "new")
		s.delete(configMaps, "dry", metav1.DeleteOptions{DryRun: dry})
		s.get(configMaps, "dry")
		_, err = s.in(configMaps).Create(s.ctx, labelled("ConfigMap", "dry2", "dry"), metav1.CreateOptions{DryRun: []string{"Some"}})
		s.did("create with an unknown value", nil, err)
	}},
	{name: "a strict client hears of fields that do not exist", run: func(s *site) {
		for _, level := range []string{metav1.FieldValidationStrict, metav1.FieldValidationIgnore, "Odd"} {
			made, err := s.in(configMaps).Create(s.ctx, object("v1", "ConfigMap", "", "strict-"+strings.ToLower(level), "data.value", "1"), metav1.CreateOptions{FieldValidation: level})
			s.did("create what is right, "+level, made, err)
		}
		made, err := s.in(configMaps).Create(s.ctx, object("v1", "ConfigMap", "", "strict", "date.value", "1"), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		s.did("create what is wrong", made, err)
	}},
	{name: "unknown fields of kinds with a type are not stored", differs: "the fake server stores objects as they are", run: func(s *site) {
		s.create(configMaps, object("v1", "ConfigMap", "", "unknown", "date.value", "1"))
	}},
	{name: "objects are validated", differs: "the fake server does not validate", run: func(s *site) {
		s.create(configMaps, object("v1", "ConfigMap", "", "Not_A_Name"))
	}},
	{name: "defaults are set", differs: "the fake server sets no defaults", run: func(s *site) {
		s.create(secrets, object("v1", "Secret", "", "defaulted"))
	}},
	{name: "a kind without a status has no such subresource", differs: "the fake server does not know which kinds have a status", run: func(s *site) {
		s.create(configMaps, object("v1", "ConfigMap", "", "statusless"))
		s.patch(configMaps, "statusless", types.MergePatchType, `{"status":{}}`, "status")
	}},
	{name: "a strict client hears of unknown fields in a patch", differs: "the fake server does not check patches for unknown fields", run: func(s *site) {
		s.create(configMaps, object("v1", "ConfigMap", "", "strictly-patched"))
		made, err := s.in(configMaps).Patch(s.ctx, "strictly-patched", types.MergePatchType, []byte(`{"date":{}}`), metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
		s.did("patch", made, err)
	}},
	{name: "metadata can be read and written alone", run: func(s *site) {
		client, err := metadata.NewForConfig(s.config)
		must(s.t, err)
		s.create(heroes, hero("partial", "spec.wings", int64(2)))
		in := client.Resource(heroes).Namespace(s.namespace)
		show := func(what string, object *metav1.PartialObjectMetadata, err error) {
			must(s.t, err)
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			must(s.t, err)
			s.did(what, &unstructured.Unstructured{Object: content}, nil)
		}
		got, err := in.Get(s.ctx, "partial", metav1.GetOptions{})
		show("get", got, err)
		got, err = in.Patch(s.ctx, "partial", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{FieldManager: "me"})
		show("patch", got, err)
		s.get(heroes, "partial")
	}},
	{name: "a watch begins with what there is or where another one ended", run: func(s *site) {
		first := s.create(configMaps, labelled("ConfigMap", "begun-1", "begun"))
		s.create(configMaps, labelled("ConfigMap", "begun-2", "begun"))
		s.patch(configMaps, "begun-1", types.MergePatchType, `{"data":{"a":"1"}}`)
		streamed := true
		for _, options := range []metav1.ListOptions{
			{ResourceVersion: first.GetResourceVersion()},
			{},
			{ResourceVersion: "0"},
			{SendInitialEvents: &streamed, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
		} {
			options.LabelSelector = "case=begun"
			opened, err := s.in(configMaps).Watch(s.ctx, options)
			must(s.t, err)
			for range 2 {
				event := <-opened.ResultChan()
				s.did("event "+string(event.Type), event.Object.(*unstructured.Unstructured), nil)
			}
			if options.SendInitialEvents != nil {
				event := <-opened.ResultChan()
				s.lines = append(s.lines, fmt.Sprint("event ", event.Type, event.Object.(*unstructured.Unstructured).GetAnnotations()))
			}
			opened.Stop()
		}
		_, err := s.in(configMaps).Watch(s.ctx, metav1.ListOptions{ResourceVersion: "x"})
		s.did("watch from no version", nil, err)
		_, err = s.in(configMaps).List(s.ctx, metav1.ListOptions{ResourceVersion: "x"})
		s.did("list at no version", nil, err)
	}},
	{name: "a list is read in pages", run: func(s *site) {
		for _, name := range []string{"page-1", "page-2", "page-3"} {
			s.create(configMaps, labelled("ConfigMap", name, "page"))
		}
		options := metav1.ListOptions{LabelSelector: "case=page", Limit: 2}
		page, err := s.in(configMaps).List(s.ctx, options)
		must(s.t, err)
		s.delete(configMaps, "page-3", metav1.DeleteOptions{})
		s.lines = append(s.lines, fmt.Sprint("items: ", len(page.Items), ", more: ", page.GetContinue() != ""))
		options.Continue = page.GetContinue()
		page, err = s.in(configMaps).List(s.ctx, options)
		must(s.t, err)
		s.lines = append(s.lines, fmt.Sprint("items: ", len(page.Items), ", more: ", page.GetContinue() != ""))
		options.Continue = "x"
		_, err = s.in(configMaps).List(s.ctx, options)
		s.did("continue nothing", nil, err)
	}},
	{name: "a watch sends each change", run: func(s *site) {
		until := s.watch(configMaps, "case=watched")
		made := s.create(configMaps, labelled("ConfigMap", "watched", "watched", "data.value", "1"))
		made = s.update(configMaps, with(made, "data.value", "2"))
		s.update(configMaps, made)
		s.patch(configMaps, "watched", types.MergePatchType, `{"metadata":{"labels":{"case":"hidden"}}}`)
		s.patch(configMaps, "watched", types.MergePatchType, `{"metadata":{"labels":{"case":"watched"},"finalizers":["example.org/held"]}}`)
		s.delete(configMaps, "watched", metav1.DeleteOptions{})
		s.patch(configMaps, "watched", types.MergePatchType, `{"data":{"value":"3"}}`)
		s.patch(configMaps, "watched", types.MergePatchType, `{"data":{"value":"4"},"metadata":{"finalizers":null}}`)
		s.create(configMaps, labelled("ConfigMap", "last", "watched"))
		until("ADDED last")
	}},
}
