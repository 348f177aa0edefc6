package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ReviewFunc answers a review of admission. An error means that the webhook has failed, so that its failure policy
// decides.
type ReviewFunc func(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error)

// ReviewValidating adds a function that validates whatever the rules of a webhook name, without a Go type. It suits
// programs that learn their rules only when they start. The server sets ClientConfig and AdmissionReviewVersions,
// which must be empty. Fields that are not set have the defaults of [Validate].
//
// As with [Validate], a webhook with rules for kinds of Kubernetes itself leaves out the namespaces that must not
// be locked out. Unlike there, the function is also called when an object that is being deleted loses a finalizer.
func ReviewValidating(s *Server, entry admissionregistrationv1.ValidatingWebhook, review ReviewFunc) error {
	err := s.addReview(false, &admissionregistrationv1.MutatingWebhook{
		Name: entry.Name, ClientConfig: entry.ClientConfig, AdmissionReviewVersions: entry.AdmissionReviewVersions,
		Rules: entry.Rules, NamespaceSelector: entry.NamespaceSelector, ObjectSelector: entry.ObjectSelector,
		FailurePolicy: entry.FailurePolicy, MatchPolicy: entry.MatchPolicy, SideEffects: entry.SideEffects,
		TimeoutSeconds: entry.TimeoutSeconds, MatchConditions: entry.MatchConditions,
	}, review)
	if err != nil {
		return fmt.Errorf("cannot add the validating webhook %q: %w", entry.Name, err)
	}
	return nil
}

// ReviewMutating adds a function that changes objects with a JSON patch in its answer. Otherwise it does what
// [ReviewValidating] does.
func ReviewMutating(s *Server, entry admissionregistrationv1.MutatingWebhook, review ReviewFunc) error {
	if err := s.addReview(true, &entry, review); err != nil {
		return fmt.Errorf("cannot add the mutating webhook %q: %w", entry.Name, err)
	}
	return nil
}

// addReview adds a webhook whose entry is given. The entry of a mutating webhook has all fields of the other one.
func (s *Server) addReview(mutating bool, entry *admissionregistrationv1.MutatingWebhook, review ReviewFunc) error {
	entry = entry.DeepCopy()
	if err := complete(entry, mutating); err != nil {
		return err
	}
	made := &hook{mutating: mutating, given: entry, timeout: time.Duration(*entry.TimeoutSeconds) * time.Second}
	if entry.NamespaceSelector != nil {
		made.namespaces = *entry.NamespaceSelector
	}
	for _, rule := range entry.Rules {
		for _, operation := range rule.Operations {
			if operation == admissionregistrationv1.OperationAll {
				made.operations = known
			} else {
				made.operations = append(made.operations, admissionv1.Operation(operation))
			}
		}
	}
	made.handle = func(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		answer, err := review(ctx, request)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err() // The answer may only say that the function was too slow.
		case err != nil:
			return nil, err
		case answer == nil:
			return nil, errors.New("the function returned no answer")
		}
		if !answer.Allowed && answer.Result == nil {
			answer.Result = &metav1.Status{}
		}
		if !answer.Allowed && answer.Result.Code == 0 {
			answer.Result.Code, answer.Result.Reason = http.StatusForbidden, metav1.StatusReasonForbidden
		}
		return answer, nil
	}
	return s.add(made)
}

// complete sets the defaults of an entry, and returns an error for a field that is out of its range. The API
// server checks the other fields.
func complete(entry *admissionregistrationv1.MutatingWebhook, mutating bool) error {
	config := &entry.ClientConfig
	switch wrong := validation.IsFullyQualifiedName(field.NewPath("Name"), entry.Name); {
	case len(wrong) > 0:
		return wrong.ToAggregate()
	case config.URL != nil || config.Service != nil || config.CABundle != nil || entry.AdmissionReviewVersions != nil:
		return errors.New("ClientConfig or AdmissionReviewVersions is set; leave both to the server")
	case len(entry.Rules) == 0:
		return errors.New("there are no Rules; give one")
	}
	if entry.FailurePolicy == nil {
		entry.FailurePolicy = new(admissionregistrationv1.Fail)
	}
	if entry.MatchPolicy == nil {
		entry.MatchPolicy = new(admissionregistrationv1.Equivalent)
	}
	if entry.SideEffects == nil {
		entry.SideEffects = new(admissionregistrationv1.SideEffectClassNoneOnDryRun)
	}
	if entry.TimeoutSeconds == nil {
		entry.TimeoutSeconds = new(int32(DefaultTimeout / time.Second))
	}
	if mutating && entry.ReinvocationPolicy == nil {
		entry.ReinvocationPolicy = new(admissionregistrationv1.IfNeededReinvocationPolicy)
	}
	if timeout := time.Duration(*entry.TimeoutSeconds) * time.Second; timeout < time.Second || timeout > maxTimeout {
		return fmt.Errorf("TimeoutSeconds is %d; allowed is 1 to 30", *entry.TimeoutSeconds)
	}
	entry.AdmissionReviewVersions = []string{"v1"}
	for i, rule := range entry.Rules {
		if len(rule.APIGroups) == 0 || len(rule.APIVersions) == 0 || len(rule.Resources) == 0 || len(rule.Operations) == 0 {
			return fmt.Errorf("rule %d lacks APIGroups, APIVersions, Resources or Operations; give all four", i)
		}
		if *entry.FailurePolicy != admissionregistrationv1.Ignore && namesDefinitions(rule.Rule) {
			return fmt.Errorf("rule %d has resource definitions, which the server itself writes, so that it would lock itself out; give FailurePolicy Ignore, or other APIGroups", i)
		}
	}
	return nil
}

// namesDefinitions reports whether a rule is for resource definitions.
func namesDefinitions(rule admissionregistrationv1.Rule) bool {
	if !slices.Contains(rule.APIGroups, definitions.Group) && !slices.Contains(rule.APIGroups, "*") {
		return false
	}
	return slices.ContainsFunc(rule.Resources, func(resource string) bool {
		return strings.HasPrefix(resource, "*") || strings.HasPrefix(resource, "customresourcedefinitions")
	})
}

// givenEntry returns the entry of a webhook that was given as one.
func (s *Server) givenEntry(h *hook, own string, bundle []byte) (map[string]any, error) {
	entry, err := runtime.DefaultUnstructuredConverter.ToUnstructured(h.given)
	if err != nil {
		return nil, err
	}
	if entry["namespaceSelector"], err = mapOf(h.namespaceSelector(own)); err != nil {
		return nil, err
	}
	entry["clientConfig"] = s.clientConfig(h.path(), bundle)
	return entry, nil
}
