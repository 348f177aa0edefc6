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

// An admission policy may quote the Secrets of a collection that it keeps from deletion.
func TestErrorsAboutDeletionsOfSecretsQuoteNoValues(t *testing.T) {
	const value = "hunter2"
	for name, options := range map[string][]controller.Option{
		"of a kind that a controller declares": {controller.Uses(&corev1.Secret{})},
		"of a kind that none declares":         nil,
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, options...)
			d.refuses.Store(&metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status:   metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid, Message: "a policy keeps " + value,
				Details: &metav1.StatusDetails{Kind: "secrets", Causes: []metav1.StatusCause{{Message: "it has " + value}}},
			})
			here := client.InNamespace(d.namespace)
			for what, err := range map[string]error{
				"one":                     d.ours.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "x"}}),
				"a collection":            d.ours.DeleteAllOf(t.Context(), &corev1.Secret{}, here),
				"a collection with limit": d.ours.DeleteAllOf(t.Context(), &corev1.Secret{}, here, &client.DeleteAllOfOptions{ListOptions: client.ListOptions{Namespace: d.namespace, Limit: 5}}),
			} {
				var answer *apierrors.StatusError
				if !errors.As(err, &answer) || !apierrors.IsInvalid(err) {
					t.Errorf("%s: the error is %T, %v; want an invalid *StatusError", what, err, err)
					continue
				}
				if shown := fmt.Sprintf("%v %+v", err, answer.Status()); strings.Contains(shown, value) {
					t.Errorf("%s: the error quotes the value: %s", what, shown)
				}
			}
			if err := d.ours.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, here); err == nil || !strings.Contains(err.Error(), value) {
				t.Errorf("for ConfigMaps the error is %v, want the message of the API server", err)
			}
		})
	}
}
