package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ReviewConversionFunc converts all objects of a request, and returns them in their order. The user sees the error.
type ReviewConversionFunc func(ctx context.Context, request *apiextensionsv1.ConversionRequest) ([]runtime.RawExtension, error)

// ReviewConversion adds a function that converts the objects of a resource definition, which it names, such as
// "heroes.example.com", without a Go type. The function must convert between all versions of the definition. The
// server sets spec.conversion of the definition, so a definition cannot have functions of [Convert] as well.
func ReviewConversion(s *Server, definition string, review ReviewConversionFunc) error {
	err := s.mayAdd()
	switch {
	case err != nil:
	case !strings.Contains(definition, "."):
		err = errors.New("it is not the name of a resource definition, such as heroes.example.com")
	case s.reviewed[definition] != nil:
		err = errors.New("it has a function already")
	}
	if err != nil {
		return fmt.Errorf("cannot add a conversion of the resource definition %q: %w", definition, err)
	}
	s.reviewed[definition] = &conversion{review: review, path: conversionPath + "/" + definition}
	return nil
}

// answer answers a request for the conversion of a resource definition. All objects are converted, or none.
func (f ReviewConversionFunc) answer(ctx context.Context, request *apiextensionsv1.ConversionRequest) *apiextensionsv1.ConversionResponse {
	converted, err := f(ctx, request)
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("it took too long: %w", ctx.Err())
	case err == nil && len(converted) != len(request.Objects):
		err = fmt.Errorf("%d objects were returned for %d", len(converted), len(request.Objects))
	}
	if err != nil {
		return &apiextensionsv1.ConversionResponse{UID: request.UID, Result: metav1.Status{
			Status: metav1.StatusFailure, Message: fmt.Sprintf("converting %d objects to %s: %v", len(request.Objects), request.DesiredAPIVersion, err),
		}}
	}
	return &apiextensionsv1.ConversionResponse{UID: request.UID, ConvertedObjects: converted, Result: metav1.Status{Status: metav1.StatusSuccess}}
}
