package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// rulesFor returns a rule for all writes of resources of a group.
func rulesFor(group string, resources ...string) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: resources},
	}}
}

func TestAReviewIsAnsweredAsTheFunctionSays(t *testing.T) {
	server := offline(t, &journal{})
	entry := admissionregistrationv1.ValidatingWebhook{Name: "heroes.example.com", Rules: rulesFor(heroes, "*")}
	must(t, webhook.ReviewValidating(server, entry, func(_ context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		switch {
		case strings.Contains(string(request.Object.Raw), "hydra"):
			return nil, errors.New("no answer is known")
		case strings.Contains(string(request.Object.Raw), "chimera"):
			return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "no chimeras"}}, nil
		}
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"be careful"}}, nil
	}))
	at := "/review/validate/heroes.example.com"
	allowed := answerOf(t, post(server.Handler(), at, review(admissionv1.Create, heroJSON("", `"horse":"arion"`), "")))
	if !allowed.Allowed || allowed.UID != "7" || len(allowed.Warnings) != 1 {
		t.Errorf("the answer is %v", allowed)
	}
	denied := answerOf(t, post(server.Handler(), at, review(admissionv1.Create, heroJSON("", `"horse":"chimera"`), "")))
	if denied.Allowed || denied.Result.Code != http.StatusForbidden || denied.Result.Message != "no chimeras" {
		t.Errorf("the answer is %v", denied)
	}
	if failed := post(server.Handler(), at, review(admissionv1.Create, heroJSON("", `"horse":"hydra"`), "")); failed.Code != http.StatusInternalServerError {
		t.Errorf("a function that fails is answered with %d", failed.Code)
	}
}

func TestAConversionReviewThatLosesObjectsFails(t *testing.T) {
	server := offline(t, &journal{})
	must(t, webhook.ReviewConversion(server, "heroes."+heroes, func(_ context.Context, request *apiextensionsv1.ConversionRequest) ([]runtime.RawExtension, error) {
		return request.Objects[1:], nil
	}))
	body := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"7","desiredAPIVersion":"%s/v2","objects":[%s]}}`, heroes, heroJSON("", ""))
	answer := &apiextensionsv1.ConversionReview{}
	must(t, json.Unmarshal(post(server.Handler(), "/convert/heroes."+heroes, body).Body.Bytes(), answer))
	if result := answer.Response.Result; result.Status != metav1.StatusFailure || !strings.Contains(result.Message, "0 objects were returned for 1") {
		t.Errorf("the answer is %v", answer.Response)
	}
}

func TestAWrongEntryIsRefusedByTheNameOfItsField(t *testing.T) {
	allow := func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		return &admissionv1.AdmissionResponse{Allowed: true}, nil
	}
	for want, entry := range map[string]admissionregistrationv1.MutatingWebhook{
		"at least three segments":         {Name: "heroes", Rules: rulesFor(heroes, "*")},
		"there are no Rules":              {Name: "heroes.example.com"},
		"rule 0 lacks":                    {Name: "heroes.example.com", Rules: rulesFor(heroes)},
		"TimeoutSeconds is 31":            {Name: "heroes.example.com", Rules: rulesFor(heroes, "*"), TimeoutSeconds: new(int32(31))},
		"rule 0 has resource definitions": {Name: "heroes.example.com", Rules: rulesFor("*", "*")},
		"ClientConfig or AdmissionReviewVersions": {
			Name: "heroes.example.com", Rules: rulesFor(heroes, "*"), ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://a")},
		},
	} {
		if err := webhook.ReviewMutating(offline(t, &journal{}), entry, allow); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
	server := offline(t, &journal{})
	entry := admissionregistrationv1.MutatingWebhook{Name: "heroes.example.com", Rules: rulesFor(heroes, "*")}
	must(t, webhook.ReviewMutating(server, entry, allow))
	if err := webhook.ReviewMutating(server, entry, allow); err == nil || !strings.Contains(err.Error(), "has a function already") {
		t.Errorf("a second function of a name gives %v", err)
	}
}

func TestARealAPIServerAsksReviews(t *testing.T) {
	w := newWorld(t)
	w.install()
	server := w.server("reviews-"+w.namespace, webhook.Certificates{})
	here := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.namespace}}
	must(t, webhook.ReviewValidating(server, admissionregistrationv1.ValidatingWebhook{
		Name: "validate.example.com", Rules: rulesFor("*", "heroes", "configmaps"), NamespaceSelector: here,
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "not-calm", Expression: "request.name != 'calm'"}},
	}, func(_ context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		if strings.HasPrefix(request.Name, "many") {
			return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "too many " + request.Resource.Resource}}, nil
		}
		return &admissionv1.AdmissionResponse{Allowed: request.Name != "calm"}, nil
	}))
	must(t, webhook.ReviewMutating(server, admissionregistrationv1.MutatingWebhook{
		Name: "mutate.example.com", Rules: rulesFor(heroes, "heroes"), NamespaceSelector: here,
	}, func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		return &admissionv1.AdmissionResponse{
			Allowed: true, PatchType: new(admissionv1.PatchTypeJSONPatch), Patch: []byte(`[{"op":"add","path":"/spec/horse","value":"pegasus"}]`),
		}, nil
	}))
	must(t, webhook.ReviewConversion(server, "heroes."+heroes, func(_ context.Context, request *apiextensionsv1.ConversionRequest) (converted []runtime.RawExtension, err error) {
		for _, each := range request.Objects {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(each.Raw); err != nil {
				return nil, err
			}
			object.SetAPIVersion(request.DesiredAPIVersion)
			if err := unstructured.SetNestedField(object.Object, request.DesiredAPIVersion, "spec", "converted"); err != nil {
				return nil, err
			}
			converted = append(converted, runtime.RawExtension{Object: object})
		}
		return converted, nil
	}))
	start(t, server)
	w.ready(server)
	w.until("the webhooks are in force", func() error {
		if _, err := w.heroes("v1").Create(w.Context(), hero("many", "", 3), metav1.CreateOptions{DryRun: []string{"All"}}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "too many heroes") {
			return fmt.Errorf("a hero is not denied: %w", err)
		}
		made, err := w.heroes("v1").Create(w.Context(), hero("one", "", 1), metav1.CreateOptions{DryRun: []string{"All"}})
		if err != nil {
			return err
		}
		if horse, _, _ := unstructured.NestedString(made.Object, "spec", "horse"); horse != "pegasus" {
			return fmt.Errorf("the hero has the horse %q", horse)
		}
		return nil
	})
	_, err := w.heroes("v1").Create(w.Context(), hero("calm", "", 1), metav1.CreateOptions{})
	must(t, err) // The condition leaves it out.
	w.until("heroes are converted", func() error {
		second, err := w.heroes("v2").Get(t.Context(), "calm", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if as, _, _ := unstructured.NestedString(second.Object, "spec", "converted"); as != heroes+"/v2" {
			return fmt.Errorf("the hero is not converted: %v", second.Object)
		}
		return nil
	})
	// ConfigMaps are a kind of Kubernetes, so that the namespaces which must not be locked out are left out.
	live, err := w.core.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "reviews-"+w.namespace, metav1.GetOptions{})
	must(t, err)
	selector := live.Webhooks[0].NamespaceSelector
	if len(selector.MatchExpressions) != 1 || selector.MatchExpressions[0].Operator != metav1.LabelSelectorOpNotIn || selector.MatchLabels["kubernetes.io/metadata.name"] != w.namespace {
		t.Errorf("the selector of namespaces is %v", selector)
	}
}
