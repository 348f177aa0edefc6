package tracing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The names of Secrets, which say what the controller does with them.
const (
	copied  = "copied"
	mutated = "mutated"
	panics  = "panics"
)

// reconcile handles a Secret, each time until it fails.
func (w *vault) reconcile(ctx context.Context, request operators.Request) (time.Duration, error) {
	secret, err := controller.Get[*corev1.Secret](ctx, w.client, request.NamespacedName)
	if err != nil {
		return 0, controller.IgnoreNotFound(err)
	}
	controller.Logger(ctx).Debug("the Secret was read", "keys", len(secret.Data))
	switch secret.Name {
	case copied:
		return 0, operators.Terminal(w.report(ctx, secret, w.copy(ctx, secret)))
	case mutated:
		secret.Data["again"] = secret.Data["password"]
		secret.Annotations = map[string]string{"password": w.value}
	case panics:
		lost(w.value, secret)
	}
	return 0, nil
}

// lost panics with the value in its arguments and in the frame.
func lost(value string, secret *corev1.Secret) {
	none := strings.Fields("")
	secret.Type = corev1.SecretType(none[len(value)])
}

// copy copies a Secret in many ways that fail, and returns all errors. Some messages of the API server
// quote the value.
func (w *vault) copy(ctx context.Context, secret *corev1.Secret) error {
	var errs []error
	failed := func(err error) {
		if err == nil {
			w.t.Error("a write does not fail")
		}
		errs = append(errs, err)
	}
	made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: "made"}, Data: secret.Data}
	first, err := controller.Create(ctx, w.client, made)
	if err != nil {
		return err
	}
	_, err = controller.Create(ctx, w.client, made)
	failed(err) // It exists.

	changed := first.DeepCopy()
	changed.Data["password"] = []byte(w.value + w.value)
	if _, err := controller.Patch(ctx, w.client, changed, controller.MergeFrom(first)); err != nil {
		return err
	}
	_, err = controller.Update(ctx, w.client, changed)
	failed(err) // A conflict by the version.
	_, err = controller.Apply[*corev1.Secret](ctx, w.client, controller.ApplyConfigurationOf(made), controller.FieldManager("other"))
	failed(err) // A conflict by the field.

	label, finalizer := made.DeepCopy(), made.DeepCopy()
	label.Labels = map[string]string{"app": w.value + "!"}
	_, err = controller.Update(ctx, w.client, label)
	failed(err)
	finalizer.Finalizers = []string{w.value}
	_, err = controller.Update(ctx, w.client, finalizer)
	failed(err)
	for _, body := range []string{`{"immutable":%q}`, `{"data":{"password":"%s!"}}`, `{"metadata":{"generation":%q}}`, `{"type":%q}`, `{"%s`} {
		_, err := controller.Patch(ctx, w.client, made, controller.RawPatch(types.MergePatchType, fmt.Appendf(nil, body, w.value)))
		failed(err)
	}
	_, err = controller.Patch(ctx, w.client, made, controller.JSONPatch(controller.JSONPatchOperation{Op: "test", Path: "/data/password", Value: w.value}))
	failed(err)
	for _, err := range errs {
		var answer apierrors.APIStatus
		if errors.As(err, &answer) && w.values.In(answer.Status().Message) != "" {
			w.quoted.Add(1)
		}
	}
	return errors.Join(errs...)
}

// report writes an error to an Event and to a condition.
func (w *vault) report(ctx context.Context, secret *corev1.Secret, failure error) error {
	for i, part := range strings.Split(failure.Error(), "\n") { // A note has at most 1024 bytes. Events of one action are a series.
		w.recorder.Warning(secret, "CopyFailed", fmt.Sprint("Copy", i), part)
	}
	service, err := controller.Get[*corev1.Service](ctx, w.client, types.NamespacedName{Namespace: secret.Namespace, Name: "report"})
	if err != nil {
		return errors.Join(failure, err)
	}
	changed := service.DeepCopy()
	controller.SetConditions(&changed.Status.Conditions, 0, metav1.Condition{Type: "Copied", Status: metav1.ConditionFalse, Message: failure.Error()})
	_, err = controller.PatchStatus(ctx, w.client, changed, controller.MergeFrom(service))
	return errors.Join(failure, err)
}

// mapped is a map function that panics with a Secret in its frame.
func (w *vault) mapped(object streams.Object) []types.NamespacedName {
	if secret, is := object.(*corev1.Secret); is && secret.Name == panics && !w.remapped.Swap(true) {
		lost(w.value, secret)
	}
	return nil
}

func TestTheValueOfASecretAppearsInNothingThatTheRuntimeShows(t *testing.T) {
	w := newVault(t)
	for _, name := range []string{copied, mutated, panics} {
		w.must(w.create(name))
	}
	w.awaitFailures()
	shown := w.shown()
	if w.quoted.Load() < 3 {
		t.Errorf("%d errors of the API server quote the value, want 3 or more: the test proves nothing", w.quoted.Load())
	}
	for _, want := range []struct{ where, text string }{
		{"log", "reconcile panicked"}, {"log", "an object of the cache was changed"}, {"log", "422"}, {"log", "quote values of the Secret"},
		{"log", "index out of range"}, {"log", "the Secret was read"}, {"log", "a warning about services"}, {"log", "source or map function failed"},
		{"Events", "quote values of the Secret"}, {"Services", "quote values of the Secret"}, {"/metrics", "controller_runtime_reconcile_panics_total"},
		{"/readyz", "failing: secrets"}, {"/readyz?level=Converged", "not ready"}, {"/healthz", "ok"}, {"/debug/pprof/goroutine?debug=2", "goroutine "}, {"traces", "reconcile"},
		{"/page/", "<html"}, {"/page/events", "event: state"}, {"the stream of the page", "its message is not shown"}, {"the stream of the page", `"name":"` + copied}, {"the stream of the page", "index out of range"},
	} {
		if !strings.Contains(shown[want.where], want.text) {
			t.Errorf("%s has no %q:\n%s", want.where, want.text, shown[want.where])
		}
	}
	for where, text := range shown {
		if found := w.values.In(text); found != "" {
			t.Errorf("%s holds the value:\n%s", where, found)
		}
		t.Logf("%d bytes of %s", len(text), where)
	}
	t.Logf("%d messages of the API server quote the value", w.quoted.Load())
	secret, err := json.Marshal(w.secret(copied))
	if w.must(err); w.values.In(string(secret)) == "" {
		t.Error("the value is not found in the Secret itself")
	}
}
