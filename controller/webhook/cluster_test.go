package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// world is a real API server with the kind Hero.
type world struct {
	*testing.T
	config    *rest.Config
	namespace string
	core      kubernetes.Interface
	dynamic   dynamic.Interface
	log       *journal
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config := clustertest.Shared(t).AdminConfig()
	core, err := kubernetes.NewForConfig(config)
	must(t, err)
	clients, err := dynamic.NewForConfig(config)
	must(t, err)
	return &world{T: t, config: config, namespace: clustertest.Namespace(t), core: core, dynamic: clients, log: &journal{}}
}

// server creates a server on loopback, and removes its configurations at the end.
func (w *world) server(name string, certificates webhook.Certificates) *webhook.Server {
	w.Helper()
	server, err := webhook.New(w.config, types(), webhook.Options{
		Address: "127.0.0.1:0", URL: "https://127.0.0.1", Name: name, Certificates: certificates, Logger: w.log.logger(),
	})
	must(w, err)
	w.removeAfterwards(name)
	return server
}

// removeAfterwards removes the configurations of a server at the end.
func (w *world) removeAfterwards(name string) {
	w.Helper()
	w.Cleanup(func() {
		ctx := context.Background()
		admission := w.core.AdmissionregistrationV1()
		for _, err := range []error{
			admission.ValidatingWebhookConfigurations().Delete(ctx, name, metav1.DeleteOptions{}),
			admission.MutatingWebhookConfigurations().Delete(ctx, name, metav1.DeleteOptions{}),
		} {
			if err != nil && !apierrors.IsNotFound(err) {
				w.Error(err)
			}
		}
	})
}

// install installs the resource definition of Hero, stored as v1. As one from a chart, it names a Service for
// conversions, which the server must replace by its URL.
func (w *world) install() {
	w.Helper()
	client, err := apiextensions.NewForConfig(w.config)
	must(w, err)
	keep := true
	version := func(name string, stored bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: stored,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", XPreserveUnknownFields: &keep}},
			}},
		}
	}
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "heroes." + heroes},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: heroes, Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "heroes", Kind: "Hero", ListKind: "HeroList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: w.namespace, Name: "operator"}},
				ConversionReviewVersions: []string{"v1"},
			}},
		},
	}
	w.until("the definition of another test is gone", func() error {
		_, err := client.CustomResourceDefinitions().Create(w.Context(), definition, metav1.CreateOptions{})
		return err
	})
	w.Cleanup(func() {
		if err := client.CustomResourceDefinitions().Delete(context.Background(), "heroes."+heroes, metav1.DeleteOptions{}); err != nil {
			w.Error(err)
		}
	})
	w.until("both versions of Hero are served", func() error {
		for _, version := range []string{"v1", "v2"} {
			if _, err := w.heroes(version).List(w.Context(), metav1.ListOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) heroes(version string) dynamic.ResourceInterface {
	return w.dynamic.Resource(schema.GroupVersionResource{Group: heroes, Version: version, Resource: "heroes"}).Namespace(w.namespace)
}

// until asks the API server again and again: it says nothing when it has read a configuration.
func (w *world) until(what string, check func() error) {
	w.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.Fatalf("waited in vain until %s: %v\n%s", what, err, w.log)
		}
	}
}

func (w *world) ready(server *webhook.Server) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	if err := server.WaitReady(ctx); err != nil {
		w.Fatalf("%v\n%s", err, w.log)
	}
}

// hero returns a hero of version v1.
func hero(name, horse string, riders int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": heroes + "/v1", "kind": "Hero", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"horse": horse, "riders": riders, "saddle": map[string]any{"color": "red"}},
	}}
}

func TestARealAPIServerDeniesDefaultsAndConverts(t *testing.T) {
	w := newWorld(t)
	server := w.server("heroes-"+w.namespace, webhook.Certificates{Secret: w.namespace + "/certificates"})
	must(t, webhook.Validate(server, func(_ context.Context, request webhook.Request[*Hero]) error {
		if request.User.Username == "" || request.Namespace != w.namespace {
			t.Errorf("the request is %+v", request)
		}
		switch {
		case request.Operation == admissionv1.Delete:
			if request.New != nil || request.Old.Spec.Horse == "" {
				t.Errorf("the request to delete has %v and %v", request.Old, request.New)
			}
			if request.Old.Labels["protected"] == "yes" {
				return errors.New("it is protected")
			}
		case request.New.Spec.Riders > 2:
			return field.ErrorList{field.Invalid(field.NewPath("spec", "riders"), request.New.Spec.Riders, "at most two")}.ToAggregate()
		case request.New.Spec.Horse == "chimera":
			return apierrors.NewConflict(schema.GroupResource{Resource: "heroes"}, request.Name, errors.New("chimeras are rare"))
		case request.Operation == admissionv1.Update && request.Old.Spec.Horse != request.New.Spec.Horse:
			return errors.New("the horse stays")
		case request.New.Spec.Riders == 0:
			request.Warn("hero %s has no riders", request.Name)
		}
		return nil
	}, webhook.On(admissionv1.Create, admissionv1.Update, admissionv1.Delete)))
	must(t, webhook.Default(server, func(ctx context.Context, hero *Hero) error {
		if request, found := webhook.RequestOf[*Hero](ctx); !found || request.New != hero {
			t.Error("the request is not in the context")
		}
		if hero.Spec.Horse == "" {
			hero.Spec.Horse = "pegasus"
			hero.Labels = map[string]string{"example.org/defaulted": "yes"}
		}
		return nil
	}))
	must(t, webhook.Convert(server, toV2, toV1))
	stop := start(t, server)
	w.until("the server says what is missing", func() error {
		if err := server.Ready(); !strings.Contains(err.Error(), "Kind=Hero; install its resource definition") {
			return err
		}
		return nil
	})
	w.install()
	w.ready(server)
	var stored *unstructured.Unstructured
	w.until("the webhooks are in force", func() (err error) {
		if _, err := w.heroes("v1").Create(w.Context(), hero("many", "", 3), metav1.CreateOptions{DryRun: []string{"All"}}); !apierrors.IsInvalid(err) {
			return fmt.Errorf("a hero with three riders is not denied: %w", err)
		}
		stored, err = w.heroes("v1").Create(w.Context(), hero("one", "", 1), metav1.CreateOptions{DryRun: []string{"All"}})
		if err == nil && stored.GetLabels()["example.org/defaulted"] != "yes" {
			err = errors.New("no defaults are set")
		}
		return err
	})

	// Denials keep their code, their details and their message.
	_, err := w.heroes("v1").Create(t.Context(), hero("many", "arion", 3), metav1.CreateOptions{})
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "at most two") || !errors.As(err, &status) || len(status.Status().Details.Causes) != 1 {
		t.Errorf("a hero with three riders gives %v", err)
	}
	_, err = w.heroes("v1").Create(t.Context(), hero("rare", "chimera", 1), metav1.CreateOptions{})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "chimeras are rare") {
		t.Errorf("a chimera gives %v", err)
	}

	// Defaults are set, fields that the type does not have stay, and other versions see both.
	one, err := w.heroes("v1").Create(t.Context(), hero("one", "", 1), metav1.CreateOptions{})
	must(t, err)
	if color, _, _ := unstructured.NestedString(one.Object, "spec", "saddle", "color"); color != "red" || one.GetLabels()["example.org/defaulted"] != "yes" {
		t.Errorf("the stored hero is %v", one.Object)
	}
	second, err := w.heroes("v2").Get(t.Context(), "one", metav1.GetOptions{})
	must(t, err)
	if horse, _, _ := unstructured.NestedString(second.Object, "spec", "mount", "name"); horse != "pegasus" || second.GetUID() != one.GetUID() || second.GetResourceVersion() != one.GetResourceVersion() {
		t.Errorf("as v2 the hero is %v", second.Object)
	}
	must(t, unstructured.SetNestedField(second.Object, int64(2), "spec", "mount", "riders"))
	second, err = w.heroes("v2").Update(t.Context(), second, metav1.UpdateOptions{})
	must(t, err)
	first, err := w.heroes("v1").Get(t.Context(), "one", metav1.GetOptions{})
	must(t, err)
	if riders, _, _ := unstructured.NestedInt64(first.Object, "spec", "riders"); riders != 2 || second.GetLabels()["example.org/defaulted"] != "yes" {
		t.Errorf("after an update as v2 the hero is %v", first.Object)
	}
	must(t, unstructured.SetNestedField(second.Object, int64(3), "spec", "mount", "riders"))
	if _, err = w.heroes("v2").Update(t.Context(), second, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a write of another version is not validated: %v", err)
	}
	must(t, unstructured.SetNestedField(first.Object, "arion", "spec", "horse"))
	if _, err = w.heroes("v1").Update(t.Context(), first, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the horse stays") {
		t.Errorf("a plain error gives %v", err)
	}
	first.SetLabels(map[string]string{"protected": "yes"})
	must(t, unstructured.SetNestedField(first.Object, "pegasus", "spec", "horse"))
	first, err = w.heroes("v1").Update(t.Context(), first, metav1.UpdateOptions{})
	must(t, err)
	if err := w.heroes("v1").Delete(t.Context(), "one", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a deletion is not denied: %v", err)
	}
	first.SetLabels(nil)
	_, err = w.heroes("v1").Update(t.Context(), first, metav1.UpdateOptions{})
	must(t, err)
	must(t, w.heroes("v1").Delete(t.Context(), "one", metav1.DeleteOptions{}))

	// The next process uses the same certificate.
	before, err := w.core.CoreV1().Secrets(w.namespace).Get(t.Context(), "certificates", metav1.GetOptions{})
	must(t, err)
	stop()
	again := w.server("heroes-"+w.namespace, webhook.Certificates{Secret: w.namespace + "/certificates"})
	must(t, webhook.Convert(again, toV2, toV1))
	start(t, again)
	w.ready(again)
	after, err := w.core.CoreV1().Secrets(w.namespace).Get(t.Context(), "certificates", metav1.GetOptions{})
	must(t, err)
	if before.ResourceVersion != after.ResourceVersion || before.Type != corev1.SecretTypeTLS {
		t.Errorf("a restart has changed the Secret")
	}
	// It has no validation any more, so nothing may call it in vain.
	w.until("a hero with three riders is allowed", func() error {
		_, err := w.heroes("v1").Create(w.Context(), hero("many", "arion", 3), metav1.CreateOptions{DryRun: []string{"All"}})
		return err
	})
	w.keepsSecrets(before)
}

// keepsSecrets checks that the log holds nothing of a key.
func (w *world) keepsSecrets(secret *corev1.Secret) {
	w.Helper()
	key := strings.Split(string(secret.Data[corev1.TLSPrivateKeyKey]), "\n")
	if len(key) < 3 || len(key[1]) < 40 {
		w.Fatalf("the key has %d lines", len(key))
	}
	if log := w.log.String(); strings.Contains(log, key[1]) || strings.Contains(log, "PRIVATE") || !strings.Contains(log, "webhook certificate issued") {
		w.Error("the log has a key, or lacks the issue of the certificate")
	}
}

func TestAServerThatStartsAgainWritesNoConfigurationThatIsAsItShouldBe(t *testing.T) {
	w := newWorld(t)
	w.install()
	var writes atomic.Int64
	plain := w.config
	w.config = rest.CopyConfig(plain)
	w.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, &writes} })
	start := func(valid func(context.Context, webhook.Request[*Hero]) error, on ...admissionv1.Operation) (stop func()) {
		server, err := webhook.New(w.config, types(), webhook.Options{
			Address: "127.0.0.1:0", URL: "https://127.0.0.1:9443", Name: "again-" + w.namespace, Certificates: webhook.Certificates{Secret: w.namespace + "/certificates"}, Logger: w.log.logger(),
		})
		must(t, err)
		must(t, webhook.Validate(server, valid, webhook.On(on...)))
		must(t, webhook.Convert(server, toV2, toV1))
		group := lifecycle.New(t.Context())
		group.Go("server", server.Run)
		w.ready(server)
		return func() {
			group.Stop()
			must(t, group.Wait())
		}
	}
	w.removeAfterwards("again-" + w.namespace)
	allow := func(context.Context, webhook.Request[*Hero]) error { return nil }
	start(allow, admissionv1.Create)()
	first := writes.Swap(0)
	start(allow, admissionv1.Create)()
	if again := writes.Swap(0); first == 0 || again != 0 {
		t.Errorf("the first start wrote %d times, and the second one %d times, want none", first, again)
	}
	start(allow, admissionv1.Create, admissionv1.Update)()
	if other := writes.Swap(0); other != 1 {
		t.Errorf("a version with another webhook wrote %d times, want once", other)
	}
}

// counting is a transport that counts writes.
type counting struct {
	http.RoundTripper
	writes *atomic.Int64
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		c.writes.Add(1)
	}
	return c.RoundTripper.RoundTrip(request)
}

func TestNoRequestFailsWhileCertificatesRotateUnderLoad(t *testing.T) {
	w := newWorld(t)
	name := "rotation-" + w.namespace
	home := clustertest.Namespace(t) // A webhook of ConfigMaps leaves it out.
	var calls atomic.Int64
	server := w.server(name, webhook.Certificates{Secret: home + "/certificates"})
	server.SetTimings(500*time.Millisecond, time.Second, 9*time.Second)
	must(t, webhook.Validate(server, func(_ context.Context, request webhook.Request[*corev1.ConfigMap]) error {
		calls.Add(1)
		if request.New.Data["deny"] == "yes" {
			return errors.New("denied")
		}
		return nil
	}, webhook.MatchCondition("here", "request.namespace in ['"+w.namespace+"', '"+home+"']")))
	w.install()
	_, err := w.heroes("v1").Create(t.Context(), hero("one", "arion", 1), metav1.CreateOptions{})
	must(t, err)
	must(t, webhook.Convert(server, toV2, toV1))
	start(t, server)
	w.ready(server)
	writeTo := func(ctx context.Context, namespace, deny string) error {
		_, err := w.core.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"deny": deny},
		}, metav1.CreateOptions{DryRun: []string{"All"}})
		return err
	}
	write := func(ctx context.Context, deny string) error { return writeTo(ctx, w.namespace, deny) }
	read := func(ctx context.Context) error {
		one, err := w.heroes("v2").Get(ctx, "one", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if horse, _, _ := unstructured.NestedString(one.Object, "spec", "mount", "name"); horse != "arion" {
			return fmt.Errorf("the hero is not converted: %v", one.Object)
		}
		return nil
	}
	w.until("the conversion is in force", func() error { return read(t.Context()) })
	w.until("the webhook is in force", func() error {
		if err := write(t.Context(), "yes"); !apierrors.IsForbidden(err) {
			return fmt.Errorf("it is not denied: %w", err)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var writes, reads atomic.Int64
	load := lifecycle.New(context.Background())
	for range 4 {
		load.Go("load", func(context.Context) error {
			for ctx.Err() == nil {
				if err := write(context.Background(), "no"); err != nil {
					return err
				}
				writes.Add(1)
			}
			return nil
		})
		load.Go("reads", func(context.Context) error {
			for ctx.Err() == nil {
				if err := read(context.Background()); err != nil {
					return err
				}
				reads.Add(1)
			}
			return nil
		})
	}
	serials := map[string]bool{}
	var enough <-chan time.Time
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil && load.Context().Err() == nil {
		held, err := webhook.Certificate(server, nil)
		must(t, err)
		if serials[held.Leaf.SerialNumber.String()] = true; len(serials) == 2 && enough == nil {
			enough = time.After(1500 * time.Millisecond) // The overlap ends, too.
		}
		select {
		case <-enough:
			cancel()
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	if err := load.Wait(); err != nil {
		t.Errorf("after %d writes and %d reads: %v\n%s", writes.Load(), reads.Load(), err, w.log)
	}
	t.Logf("%d writes, %d reads of another version, %d certificates", writes.Load(), reads.Load(), len(serials))
	if len(serials) < 2 || writes.Load() < 100 || reads.Load() < 100 || calls.Load() < writes.Load() {
		t.Errorf("%d certificates, %d writes and %d calls prove little", len(serials), writes.Load(), calls.Load())
	}
	live, err := w.core.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	hook := live.Webhooks[0]
	if count := strings.Count(string(hook.ClientConfig.CABundle), "BEGIN"); count < 1 || count > 3 {
		t.Errorf("the bundle has %d authorities", count)
	}
	for _, namespace := range []string{"kube-system", "kube-node-lease", home} {
		if excluded := hook.NamespaceSelector.MatchExpressions[0].Values; !slices.Contains(excluded, namespace) {
			t.Errorf("the namespace %s is not left out: %v", namespace, excluded)
		}
	}
	must(t, writeTo(t.Context(), home, "yes"))
}
