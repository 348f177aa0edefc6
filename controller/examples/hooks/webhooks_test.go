package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// policy is a hook with a webhook of each type of admission.
const policy = `
configVersion: v1
kubernetes: [{name: maps, kind: cm, executeHookOnEvent: [], executeHookOnSynchronization: false}]
kubernetesValidating:
- name: policy.example.com
  includeSnapshotsFrom: [maps]
  rules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [secrets]}]
kubernetesMutating:
- name: change.example.com
  rules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [secrets]}]
`

// reviewing returns a reviewer whose hooks answer with a function.
func (w *world) reviewing(answer func(contexts []map[string]any) (string, error)) *reviewer {
	return &reviewer{
		logger: slog.New(slog.NewTextHandler(w.t.Output(), nil)), client: w.manager.Client(), level: w.manager.Cache().Level,
		ask: func(_ context.Context, _ *Hook, contexts []map[string]any, _ string) ([]byte, error) {
			text, err := answer(contexts)
			return []byte(text), err
		},
	}
}

func TestAHookIsAskedWithTheReviewAndItsSnapshots(t *testing.T) {
	inWorld(t, map[string]string{"a": policy}, func(w *world) {
		var asked string
		reviews := w.reviewing(func(contexts []map[string]any) (string, error) {
			text, err := json.Marshal(contexts)
			asked = string(text)
			return `{"allowed": true, "warnings": ["be careful"]}`, err
		})
		hook := w.hooks["a"]
		admit := reviews.admits(hook, &hook.Config.Validating[0], validating)
		request := &admissionv1.AdmissionRequest{UID: "7", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(`{"kind":"Secret","odd":1}`)}}
		answer, err := admit(w.t.Context(), request)
		w.must(err)
		if !answer.Allowed || len(answer.Warnings) != 1 {
			t.Errorf("the answer is %v", answer)
		}
		for _, want := range []string{
			`[{"binding":"policy.example.com","review":{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"7",`,
			`"object":{"kind":"Secret","odd":1}`, `"snapshots":{"maps":[{"object":{`, `"name":"old"`, `"type":"Validating"}]`,
		} {
			if !strings.Contains(asked, want) {
				t.Errorf("the context is %s, want one with %s", asked, want)
			}
		}
		reviews.level = func() cache.Level { return cache.Starting }
		if answer, err := admit(w.t.Context(), request); !errors.Is(err, errTooEarly) {
			t.Errorf("before the lists are complete the answer is %v: %v", answer, err)
		}
	}, configMap("old"))
}

func TestTheAnswerOfAHookDecidesAboutTheWrite(t *testing.T) {
	inWorld(t, map[string]string{"a": policy}, func(w *world) {
		hook := w.hooks["a"]
		for _, each := range []struct {
			kind, text string
			err        error
			want       string
		}{
			{validating, `{"allowed": true}`, nil, "allowed"},
			{validating, `{"allowed": false, "message": "not today"}`, nil, "denied: not today"},
			{validating, ``, nil, "denied: hook a failed; the log of its program says why"},
			{validating, `allowed`, nil, "denied: hook a failed; the log of its program says why"},
			{validating, `{"allowed": true}`, errHook, "denied: hook a failed; the log of its program says why"},
			{validating, `{"allowed": true, "patch": "W10="}`, nil, "denied: hook a failed; the log of its program says why"},
			{mutating, `{"allowed": true, "patch": "W10="}`, nil, "allowed with JSONPatch []"},
			{mutating, `{"allowed": true, "patch": "YWJj"}`, nil, "denied: hook a failed; the log of its program says why"},
			{mutating, `{"allowed": false, "patch": "W10="}`, nil, "denied: "},
		} {
			reviews := w.reviewing(func([]map[string]any) (string, error) { return each.text, each.err })
			answer, err := reviews.admits(hook, &hook.Config.Validating[0], each.kind)(w.t.Context(), &admissionv1.AdmissionRequest{UID: "7"})
			w.must(err)
			got := "allowed"
			switch {
			case !answer.Allowed && answer.Patch == nil:
				got = "denied: " + answer.Result.Message
			case answer.PatchType != nil:
				got = fmt.Sprintf("allowed with %s %s", *answer.PatchType, answer.Patch)
			}
			if got != each.want {
				t.Errorf("%s %s: it is %s, want %s", each.kind, each.text, got, each.want)
			}
		}
		ended, end := context.WithCancel(w.t.Context())
		end()
		reviews := w.reviewing(func([]map[string]any) (string, error) { return "", context.Canceled })
		if _, err := reviews.admits(hook, &hook.Config.Mutating[0], mutating)(ended, &admissionv1.AdmissionRequest{UID: "7"}); err == nil {
			t.Error("a hook that took too long denies the write, instead of leaving it to the failure policy")
		}
	})
}

func TestObjectsAreConvertedThroughTheHooksOnTheShortestPath(t *testing.T) {
	config := func(rules string) string {
		return "configVersion: v1\nkubernetesCustomResourceConversion: [{name: steps, crdName: tabs.example.com, conversions: [" + rules + "]}]"
	}
	inWorld(t, map[string]string{
		"a": config("{fromVersion: example.com/v1, toVersion: v2}, {fromVersion: v2, toVersion: v1}"),
		"b": config("{fromVersion: example.com/v2, toVersion: example.com/v3}"),
	}, func(w *world) {
		var steps []conversionStep
		for _, name := range []string{"a", "b"} {
			binding := &w.hooks[name].Config.Conversion[0]
			for _, rule := range binding.Conversions {
				steps = append(steps, conversionStep{w.hooks[name], binding, rule})
			}
		}
		convert := w.reviewing(func(contexts []map[string]any) (string, error) {
			review := contexts[0]["review"].(*apiextensionsv1.ConversionReview)
			var made []string
			for _, object := range review.Request.Objects {
				version := contexts[0]["toVersion"].(string)
				if !strings.Contains(version, "/") {
					version = "example.com/" + version
				}
				made = append(made, fmt.Sprintf(`{"apiVersion":%q,"was":%s}`, version, object.Raw))
			}
			return `{"convertedObjects": [` + strings.Join(made, ",") + `]}`, nil
		}).converts(steps)
		object := func(version string) runtime.RawExtension {
			return runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"example.com/%s"}`, version)}
		}
		converted, err := convert(w.t.Context(), &apiextensionsv1.ConversionRequest{
			DesiredAPIVersion: "example.com/v3", Objects: []runtime.RawExtension{object("v1"), object("v3"), object("v2"), object("v1")},
		})
		w.must(err)
		two := `{"apiVersion":"example.com/v3","was":{"apiVersion":"example.com/v2","was":{"apiVersion":"example.com/v1"}}}`
		for i, want := range []string{two, `{"apiVersion":"example.com/v3"}`, `{"apiVersion":"example.com/v3","was":{"apiVersion":"example.com/v2"}}`, two} {
			if got := string(converted[i].Raw); got != want {
				t.Errorf("object %d is %s, want %s", i, got, want)
			}
		}
		if _, err := convert(w.t.Context(), &apiextensionsv1.ConversionRequest{DesiredAPIVersion: "example.com/v1", Objects: []runtime.RawExtension{object("v3")}}); err == nil || !strings.Contains(err.Error(), "no hook converts example.com/v3 to example.com/v1") {
			t.Errorf("the error is %v", err)
		}
		failing := w.reviewing(func([]map[string]any) (string, error) { return `{"failedMessage": "not today"}`, nil }).converts(steps)
		if _, err := failing(w.t.Context(), &apiextensionsv1.ConversionRequest{DesiredAPIVersion: "example.com/v2", Objects: []runtime.RawExtension{object("v1")}}); err == nil || err.Error() != "not today" {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestHooksWithWebhooksNeedAnAddress(t *testing.T) {
	inWorld(t, map[string]string{"a": policy}, func(w *world) {
		reviews := w.reviewing(func([]map[string]any) (string, error) { return "", nil })
		err := reviews.serveWebhooks(w.manager, w.server.Config(), []*Hook{w.hooks["a"]}, webhook.Options{})
		if err == nil || !strings.Contains(err.Error(), "--webhook-service or --webhook-url") {
			t.Errorf("the error is %v", err)
		}
	})
}
