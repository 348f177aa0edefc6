package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// conversionStep is a conversion that a hook knows.
type conversionStep struct {
	hook    *Hook
	binding *ConversionBinding
	rule    ConversionRule
}

// conversionAnswer is what a hook writes to CONVERSION_RESPONSE_PATH.
type conversionAnswer struct {
	FailedMessage    string                 `json:"failedMessage"`
	ConvertedObjects []runtime.RawExtension `json:"convertedObjects"`
}

// converts returns a function that converts objects through the conversions that hooks know. The objects of each
// version are converted together, on a path as short as possible.
func (r *reviewer) converts(steps []conversionStep) webhook.ReviewConversionFunc {
	return func(ctx context.Context, request *apiextensionsv1.ConversionRequest) ([]runtime.RawExtension, error) {
		converted := slices.Clone(request.Objects)
		places := map[string][]int{} // of the objects of each version
		for i, object := range request.Objects {
			version, err := versionOf(object)
			if err != nil {
				return nil, err
			}
			if version != request.DesiredAPIVersion {
				places[version] = append(places[version], i)
			}
		}
		for version, of := range places {
			part := request.DeepCopy()
			part.Objects = make([]runtime.RawExtension, len(of))
			for i, place := range of {
				part.Objects[i] = request.Objects[place]
			}
			if err := r.convertAll(ctx, steps, version, part); err != nil {
				return nil, err
			}
			for i, place := range of {
				converted[place] = part.Objects[i]
			}
		}
		return converted, nil
	}
}

// convertAll converts the objects of a request, which all have one version.
func (r *reviewer) convertAll(ctx context.Context, steps []conversionStep, from string, request *apiextensionsv1.ConversionRequest) error {
	path := shortestPath(steps, from, request.DesiredAPIVersion)
	if path == nil {
		return fmt.Errorf("no hook converts %s to %s", from, request.DesiredAPIVersion)
	}
	for _, step := range path {
		review := &apiextensionsv1.ConversionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "ConversionReview"}, Request: request,
		}
		answer := &conversionAnswer{}
		text, err := r.run(ctx, step.hook, &step.binding.NamedBinding, map[string]any{
			"type": "Conversion", "fromVersion": step.rule.FromVersion, "toVersion": step.rule.ToVersion, "review": review,
		}, conversionResponse)
		if err == nil {
			err = json.Unmarshal(text, answer)
		}
		switch {
		case err != nil:
			r.logger.Error("a hook did not convert", "hook", step.hook.Name, "binding", step.binding.Name, "error", err)
			return fmt.Errorf("hook %s failed; the log of its program says why", step.hook.Name)
		case answer.FailedMessage != "":
			return errors.New(answer.FailedMessage)
		case len(answer.ConvertedObjects) != len(request.Objects):
			return fmt.Errorf("hook %s returned %d objects for %d", step.hook.Name, len(answer.ConvertedObjects), len(request.Objects))
		}
		request.Objects = answer.ConvertedObjects
	}
	return nil
}

// shortestPath returns the steps from one version to another, as few as possible, or nil if there are none.
func shortestPath(steps []conversionStep, from, to string) []conversionStep {
	type reached struct {
		version string
		path    []conversionStep
	}
	seen := make([]bool, len(steps))
	for queue := []reached{{version: from}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if len(at.path) > 0 && isVersion(at.version, to) {
			return at.path
		}
		for i, step := range steps {
			if !seen[i] && isVersion(step.rule.FromVersion, at.version) {
				seen[i] = true
				queue = append(queue, reached{step.rule.ToVersion, append(slices.Clone(at.path), step)})
			}
		}
	}
	return nil
}

// isVersion reports whether two versions are the same, if each may lack its group.
func isVersion(one, other string) bool {
	return one == other || strings.HasSuffix(one, "/"+other) || strings.HasSuffix(other, "/"+one)
}

// versionOf returns the apiVersion of an object.
func versionOf(object runtime.RawExtension) (string, error) {
	var typed metav1.TypeMeta
	if err := json.Unmarshal(object.Raw, &typed); err != nil {
		return "", fmt.Errorf("reading the apiVersion of an object: %w", err)
	}
	return typed.APIVersion, nil
}
