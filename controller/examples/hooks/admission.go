package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These are the types of the contexts of admission.
const (
	validating = "Validating"
	mutating   = "Mutating"
)

// admissionAnswer is what a hook writes to ADMISSION_RESPONSE_PATH.
type admissionAnswer struct {
	Allowed  bool     `json:"allowed"`
	Message  string   `json:"message"`
	Warnings []string `json:"warnings"`
	Patch    []byte   `json:"patch"` // a JSON patch, in base64
}

// admits returns a function that asks a hook about a write. A hook that fails, or that gives no valid answer, denies
// the write. The failure policy decides if the hook took too long, or could not be run yet.
func (r *reviewer) admits(hook *Hook, binding *AdmissionBinding, kind string) webhook.ReviewFunc {
	return func(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		review := &admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Request: request,
		}
		text, err := r.run(ctx, hook, &binding.NamedBinding, map[string]any{"type": kind, "review": review}, admissionResponse)
		var answer *admissionAnswer
		if err == nil {
			answer, err = parseAdmission(text, kind)
		}
		switch {
		case errors.Is(err, errTooEarly) || ctx.Err() != nil:
			return nil, fmt.Errorf("hook %s: %w", hook.Name, err)
		case err != nil:
			r.logger.Error("a hook did not answer a review, so the write is denied", "hook", hook.Name, "binding", binding.Name,
				"kind", request.Kind.String(), "namespace", request.Namespace, "name", request.Name, "error", err)
			answer = &admissionAnswer{Message: fmt.Sprintf("hook %s failed; the log of its program says why", hook.Name)}
		}
		made := &admissionv1.AdmissionResponse{Allowed: answer.Allowed, Warnings: answer.Warnings}
		if !answer.Allowed {
			made.Result = &metav1.Status{Status: metav1.StatusFailure, Message: answer.Message}
		}
		if answer.Allowed && len(answer.Patch) > 0 {
			made.Patch, made.PatchType = answer.Patch, new(admissionv1.PatchTypeJSONPatch)
		}
		return made, nil
	}
}

// parseAdmission reads what a hook answered.
func parseAdmission(text []byte, kind string) (*admissionAnswer, error) {
	if len(text) == 0 {
		return nil, fmt.Errorf("%s is empty; write an answer such as {\"allowed\": true}", admissionResponse)
	}
	answer := &admissionAnswer{}
	if err := json.Unmarshal(text, answer); err != nil {
		return nil, fmt.Errorf("reading %s: %w", admissionResponse, err)
	}
	if kind == validating && len(answer.Patch) > 0 {
		return nil, fmt.Errorf("reading %s: it has a patch; only kubernetesMutating may have one", admissionResponse)
	}
	if len(answer.Patch) > 0 && !json.Valid(answer.Patch) {
		return nil, fmt.Errorf("reading %s: patch is not JSON in base64", admissionResponse)
	}
	return answer, nil
}
