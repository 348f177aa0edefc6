package compat_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The API server quotes the type of a Secret when a client tries to change it.
func TestErrorsAboutSecretsQuoteNoValues(t *testing.T) {
	const value = "hunter2"
	for name, options := range map[string][]controller.Option{
		"of a kind that a controller declares": {controller.Uses(&corev1.Secret{})},
		"of a kind that none declares":         nil,
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, options...)
			made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "x"}}
			d.must(d.ours.Create(t.Context(), made))
			changed := made.DeepCopy()
			changed.Type = value
			patch := client.RawPatch(types.MergePatchType, []byte(`{"type":"`+value+`"}`))
			if err := d.theirs.Update(t.Context(), changed.DeepCopy()); err == nil || !strings.Contains(err.Error(), value) {
				t.Fatalf("the API server answers %v, want an error that quotes the value", err)
			}
			for what, err := range map[string]error{
				"update": d.ours.Update(t.Context(), changed),
				"patch":  d.ours.Patch(t.Context(), made.DeepCopy(), patch),
				"apply":  d.ours.Apply(t.Context(), applycorev1.Secret("x", d.namespace).WithType(value), client.ForceOwnership, client.FieldOwner("x")),
			} {
				if reflect.TypeOf(err) != reflect.TypeOf(&apierrors.StatusError{}) || !apierrors.IsInvalid(err) { // Some programs look at the type.
					t.Errorf("%s: the error is %T, %v; want an invalid *StatusError", what, err, err)
				}
				var answer apierrors.APIStatus
				if !errors.As(err, &answer) {
					continue
				}
				status := answer.Status()
				if strings.Contains(err.Error()+status.Message+fmt.Sprint(status.Details), value) {
					t.Errorf("%s: the error quotes the value: %+v", what, status)
				}
				if len(status.Details.Causes) != 1 || status.Details.Causes[0].Field != "type" {
					t.Errorf("%s: the error does not name the field: %+v", what, status.Details)
				}
			}
		})
	}
}
