package sourcestest_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var patches = []behaviour{
	{name: "a merge patch merges maps and replaces lists", run: func(s *site) {
		s.create(configMaps, labelled("ConfigMap", "merged", "merged", "data.a", "1", "data.b", "2"))
		s.patch(configMaps, "merged", types.MergePatchType, `{"data":{"a":null,"c":"3"}}`)
		s.patch(configMaps, "merged", types.MergePatchType, `{"data":{"c":"3"}}`)
		s.patch(configMaps, "merged", types.MergePatchType, `{"data":`)
		s.patch(configMaps, "merged", types.MergePatchType, `{"metadata":{"resourceVersion":"1"},"data":{"c":"4"}}`)
		s.patch(configMaps, "merged", types.MergePatchType, `{"metadata":{"name":"other"}}`)
		s.patch(configMaps, "never", types.MergePatchType, `{}`)
	}},
	{name: "a JSON patch is done whole or not at all", run: func(s *site) {
		s.create(configMaps, labelled("ConfigMap", "json", "json", "data.a", "1"))
		s.patch(configMaps, "json", types.JSONPatchType, `[{"op":"test","path":"/data/a","value":"1"},{"op":"add","path":"/data/b","value":"2"}]`)
		s.patch(configMaps, "json", types.JSONPatchType, `[{"op":"add","path":"/data/c","value":"3"},{"op":"test","path":"/data/a","value":"9"}]`)
		s.patch(configMaps, "json", types.JSONPatchType, `[{"op":"remove","path":"/data/never"}]`)
		s.patch(configMaps, "json", types.JSONPatchType, `{}`)
		s.get(configMaps, "json")
	}},
	{name: "a strategic merge patch merges lists by their keys", run: func(s *site) {
		s.create(accounts, object("v1", "ServiceAccount", "", "strategic", "secrets", []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}}))
		s.patch(accounts, "strategic", types.StrategicMergePatchType, `{"secrets":[{"name":"c"},{"name":"b"}]}`)
		s.patch(accounts, "strategic", types.StrategicMergePatchType, `{"secrets":[{"$patch":"delete","name":"a"}]}`)
		s.patch(accounts, "strategic", types.StrategicMergePatchType, `{"metadata":{"finalizers":["example.org/a"]}}`)
		s.patch(accounts, "strategic", types.StrategicMergePatchType, `{"metadata":{"finalizers":["example.org/b"]}}`)
		s.patch(accounts, "strategic", types.StrategicMergePatchType, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.org/a","example.org/b"]}}`)
		s.patch(accounts, "strategic", types.StrategicMergePatchType, `{"secrets":[{"namespace":"keyless"}]}`)
		s.patch(accounts, "strategic", types.StrategicMergePatchType, `[]`)
		s.patch(accounts, "never", types.StrategicMergePatchType, `{}`)
	}},
	{name: "a custom resource takes no strategic merge patch", run: func(s *site) {
		s.create(heroes, hero("unstrategic", "spec.wings", int64(2)))
		s.patch(heroes, "unstrategic", types.StrategicMergePatchType, `{"spec":{"wings":3}}`)
		s.patch(heroes, "unstrategic", "text/plain", `{}`)
		s.patch(configMaps, "unstrategic", "text/plain", `{}`)
	}},
	{name: "what is not a patch is refused", run: func(s *site) {
		s.create(heroes, hero("odd", "spec.wings", int64(2)))
		for _, body := range []string{`[]`, `7`, `null`, ``, `text`, `{"metadata":null}`, `{"kind":null}`, `{"apiVersion":"example.org/v2"}`, `{"metadata":7}`, `{"metadata":{"labels":{"a":7}}}`} {
			s.lines = append(s.lines, body)
			s.patch(heroes, "odd", types.MergePatchType, body)
		}
		for _, body := range []string{`[7]`, `[{}]`, `null`, ``, `text`, `[{"op":"copy","from":"/spec","path":"/more"}]`, `[{"op":"replace","path":"","value":7}]`, `[{"op":"remove","path":"/kind"}]`} {
			s.lines = append(s.lines, body)
			s.patch(heroes, "odd", types.JSONPatchType, body)
		}
		s.create(accounts, object("v1", "ServiceAccount", "", "odd"))
		for _, body := range []string{`7`, `null`, ``, `text`, `{"secrets":7}`, `{"secrets":[7]}`, `{"metadata":null}`, `{"$patch":"delete"}`, `{"kind":null}`, `{"kind":"Secret"}`, `{"apiVersion":"v2"}`} {
			s.lines = append(s.lines, body)
			s.patch(accounts, "odd", types.StrategicMergePatchType, body)
		}
	}},
	{name: "an empty list of a kind with a type is left out", differs: "the fake server stores objects as they are", run: func(s *site) {
		s.create(accounts, object("v1", "ServiceAccount", "", "empty-list", "secrets", []any{}))
	}},
	{name: "the options of a patch are checked", run: func(s *site) {
		s.create(configMaps, object("v1", "ConfigMap", "", "options"))
		force := true
		_, err := s.in(configMaps).Patch(s.ctx, "options", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{Force: &force})
		s.did("force a merge patch", nil, err)
		s.apply(configMaps, "options", "", `{"apiVersion":"v1","kind":"ConfigMap"}`)
		_, err = s.in(configMaps).Patch(s.ctx, "options", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{FieldManager: "not\nprintable"})
		s.did("an unprintable manager", nil, err)
	}},
}

var applies = []behaviour{
	{name: "an apply creates an object and owns its fields", run: func(s *site) {
		s.apply(configMaps, "applied", "me", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied","labels":{"a":"1"}},"data":{"a":"1","b":"2"}}`)
		s.apply(configMaps, "applied", "me", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied","labels":{"a":"1"}},"data":{"a":"1","b":"2"}}`)
		s.apply(configMaps, "applied", "me", "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: \"2\"\n")
		s.get(configMaps, "applied")
	}},
	{name: "what another manager owns is a conflict unless it is forced or equal", run: func(s *site) {
		s.create(configMaps, object("v1", "ConfigMap", "", "contested", "data.a", "1", "data.b", "1"))
		s.apply(configMaps, "contested", "me", `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"2","b":"2","c":"2"}}`)
		s.apply(configMaps, "contested", "me", `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"1","c":"2"}}`)
		s.force(configMaps, "contested", "me", `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"2","c":"2"}}`)
		s.apply(configMaps, "contested", "you", `{"apiVersion":"v1","kind":"ConfigMap","data":{"c":"3"}}`)
		s.force(configMaps, "contested", "you", `{"apiVersion":"v1","kind":"ConfigMap","data":{"c":"3"}}`)
		s.apply(configMaps, "contested", "me", `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"2"}}`)
		s.apply(configMaps, "contested", "you", `{"apiVersion":"v1","kind":"ConfigMap"}`)
		s.patch(configMaps, "contested", types.MergePatchType, `{"data":{"a":"9"}}`)
		s.apply(configMaps, "contested", "me", `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"2"}}`)
	}},
	{name: "lists of a built-in kind merge by their keys", run: func(s *site) {
		s.apply(accounts, "keyed", "me", `{"apiVersion":"v1","kind":"ServiceAccount","secrets":[{"name":"a"},{"name":"b"}]}`)
		s.apply(accounts, "keyed", "you", `{"apiVersion":"v1","kind":"ServiceAccount","secrets":[{"name":"c"}],"imagePullSecrets":[{"name":"x"}]}`)
		s.apply(accounts, "keyed", "me", `{"apiVersion":"v1","kind":"ServiceAccount","secrets":[{"name":"b"}],"imagePullSecrets":[{"name":"y"}]}`)
		s.apply(accounts, "keyed", "me", `{"apiVersion":"v1","kind":"ServiceAccount","secrets":[{"name":"b"}]}`)
		s.apply(accounts, "keyed", "me", `{"apiVersion":"v1","kind":"ServiceAccount","secrets":[{"name":"b"},{"name":"b"}]}`)
		s.apply(accounts, "keyed", "me", `{"apiVersion":"v1","kind":"ServiceAccount","secret":[{"name":"b"}]}`)
	}},
	{name: "an apply with the version of an empty store only creates", run: func(s *site) {
		for range 2 {
			s.apply(configMaps, "only", "me", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"1"},"data":{"a":"1"}}`)
			s.apply(heroes, "only", "me", `{"apiVersion":"example.org/v1","kind":"Hero","metadata":{"resourceVersion":"1"},"spec":{"wings":2}}`)
		}
		s.apply(configMaps, "only", "you", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"1"},"data":{"a":"2"}}`)
		s.apply(configMaps, "only", "me", `{"apiVersion":"v1","kind":"ConfigMap","data":{"b":"1"}}`)
	}},
	{name: "an apply to a custom resource merges maps, finalizers and owners", run: func(s *site) {
		s.apply(heroes, "custom", "me", `{"apiVersion":"example.org/v1","kind":"Hero","metadata":{"finalizers":["example.org/a"],
			"ownerReferences":[{"apiVersion":"example.org/v1","kind":"Hero","name":"p","uid":"p"}]},"spec":{"wings":2,"size":{"height":1},"list":[1,2]}}`)
		s.apply(heroes, "custom", "you", `{"apiVersion":"example.org/v1","kind":"Hero","metadata":{"finalizers":["example.org/b"],
			"ownerReferences":[{"apiVersion":"example.org/v1","kind":"Hero","name":"q","uid":"q"}]},"spec":{"size":{"width":1.5}}}`)
		s.apply(heroes, "custom", "you", `{"apiVersion":"example.org/v1","kind":"Hero","spec":{"list":[1,2,3]}}`)
		s.apply(heroes, "custom", "me", `{"apiVersion":"example.org/v1","kind":"Hero","spec":{"wings":3}}`)
		s.patch(heroes, "custom", types.MergePatchType, `{"metadata":{"ownerReferences":null}}`)
	}},
	{name: "an apply to a status leaves the rest", run: func(s *site) {
		s.apply(heroes, "applied-status", "me", `{"apiVersion":"example.org/v1","kind":"Hero","spec":{"wings":2},"status":{"flies":true}}`)
		s.apply(heroes, "applied-status", "me", `{"apiVersion":"example.org/v1","kind":"Hero","status":{"flies":true,"since":{"year":1}}}`, "status")
		s.apply(heroes, "applied-status", "you", `{"apiVersion":"example.org/v1","kind":"Hero","status":{"flies":false}}`, "status")
		s.apply(heroes, "applied-status", "me", `{"apiVersion":"example.org/v1","kind":"Hero","spec":{"wings":3}}`)
		s.apply(heroes, "applied-status", "me", `{"apiVersion":"example.org/v1","kind":"Hero","status":{"flies":true}}`, "status")
		s.apply(heroes, "never", "me", `{"apiVersion":"example.org/v1","kind":"Hero","status":{"flies":true}}`, "status")
	}},
	{name: "what is not an apply configuration is refused", run: func(s *site) {
		made := s.create(configMaps, object("v1", "ConfigMap", "", "strange"))
		for _, body := range []string{
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"other"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"1"},"data":{"a":"1"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"uid":"other"},"data":{"a":"1"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"managedFields":[{"manager":"x"}]}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","data":7}`,
			`{"apiVersion":"v1","kind":"Secret"}`,
			`{"apiVersion":"v2","kind":"ConfigMap"}`,
			`{"data":{"a":"1"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":7}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":null}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":7}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"a":7}}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":null}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":7}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":null}}`,
			`{"apiVersion":"v1","kind":["ConfigMap"]}`,
			`null`, `7`, `text`, ``,
			`[1]`,
			`{{`,
		} {
			s.lines = append(s.lines, body)
			s.apply(configMaps, "strange", "me", body)
			s.apply(configMaps, "strange-new", "me", body)
		}
		s.update(configMaps, made)
		s.apply(heroes, "strange", "me", `{"apiVersion":"example.org/v2","kind":"Hero"}`)
	}},
}
