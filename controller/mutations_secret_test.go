package controller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// canary is part of every value of a Secret, before and after a change.
const canary = "canary"

// passwords is a projection of a Secret.
type passwords struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Held  map[string]string `json:"held"`
	wrong error             // not in the JSON
}

func (p *passwords) DeepCopyObject() runtime.Object {
	return &passwords{p.TypeMeta, *p.ObjectMeta.DeepCopy(), map[string]string{"root": p.Held["root"]}, p.wrong}
}

// unencodable fails to encode, with an error that contains the value of the Secret.
type unencodable struct{ passwords }

func (u *unencodable) DeepCopyObject() runtime.Object {
	return &unencodable{*u.passwords.DeepCopyObject().(*passwords)}
}

func (u *unencodable) MarshalJSON() ([]byte, error) {
	return nil, fmt.Errorf("%s cannot be encoded", u.Held["root"])
}

// The error of a reconcile is logged, so it must not contain values of a Secret.
func TestAMutationOfASecretShowsItsPathsAndNoValues(t *testing.T) {
	const applied = "kubectl.kubernetes.io/last-applied-configuration"
	const hidden = " (values are not shown, because they may come from a Secret)"
	for name, test := range map[string]struct {
		of     controller.Option
		change func(*controller.Client, operators.Request)
		says   string
	}{
		"whole": {controller.For(&corev1.Secret{}), func(c *controller.Client, request operators.Request) {
			held, _ := cached[*corev1.Secret](c, request.NamespacedName)
			held.Data["password"], held.Data["new"] = []byte(canary+" 2"), []byte(canary)
			delete(held.Data, "gone")
			held.Finalizers = []string{canary}
			held.Annotations[applied] = canary + " 2"
		}, "data.gone, data.new, data.password, metadata.annotations[" + applied + "], metadata.finalizers" + hidden},
		"copied to another kind": {controller.For(&corev1.Secret{}), func(c *controller.Client, request operators.Request) {
			held, _ := cached[*corev1.Secret](c, request.NamespacedName)
			config, _ := cached[*corev1.ConfigMap](c, request.NamespacedName)
			config.Data = map[string]string{"password": string(held.Data["password"])}
		}, "ConfigMap default/x: data.password" + hidden},
		"metadata": {controller.For(&controller.Metadata[corev1.Secret]{}), func(c *controller.Client, request operators.Request) {
			held, _ := cached[*controller.Metadata[corev1.Secret]](c, request.NamespacedName)
			held.Annotations[applied] = canary + " 2"
		}, "metadata.annotations[" + applied + "]" + hidden},
		"a projection": {
			controller.For(&passwords{}, controller.Project(func(whole *corev1.Secret) *passwords {
				return &passwords{Held: map[string]string{"root": string(whole.Data["password"])}}
			})),
			func(c *controller.Client, request operators.Request) {
				held, _ := cached[*passwords](c, request.NamespacedName)
				held.Held["root"] = canary + " 2"
			}, "held.root" + hidden,
		},
		"a projection's field that is not in its JSON": {
			controller.For(&passwords{}, controller.Project(func(*corev1.Secret) *passwords { return &passwords{} })),
			func(c *controller.Client, request operators.Request) {
				held, _ := cached[*passwords](c, request.NamespacedName)
				held.wrong = errors.New(canary)
			}, "fields that are not in its JSON",
		},
		"a projection that cannot be encoded": {
			controller.For(&unencodable{}, controller.Project(func(whole *corev1.Secret) *unencodable {
				return &unencodable{passwords{Held: map[string]string{"root": string(whole.Data["password"])}}}
			})),
			func(c *controller.Client, request operators.Request) {
				held, _ := cached[*unencodable](c, request.NamespacedName)
				held.Held["root"] = canary + " 2"
			}, "fields that cannot be compared" + hidden,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
				if err != nil {
					t.Fatal(err)
				}
				if err := server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}); err != nil {
					t.Fatal(err)
				}
				if err := server.Create(&corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", Annotations: map[string]string{applied: canary}},
					Data:       map[string][]byte{"password": []byte(canary), "gone": []byte(canary)},
				}); err != nil {
					t.Fatal(err)
				}
				var logged bytes.Buffer // by the manager; read it only after Run has returned
				var failure error
				manager, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{
					DetectMutations: true,
					Logger:          slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
					OnResult:        func(result operators.Result) { failure = errors.Join(failure, result.Err) },
				})
				if err != nil {
					t.Fatal(err)
				}
				reconcile := func(_ context.Context, request operators.Request) (time.Duration, error) {
					test.change(manager.Client(), request)
					return 0, operators.Terminal(errors.New("done"))
				}
				if err := manager.Add("secrets", reconcile, test.of, controller.Owns(&corev1.ConfigMap{})); err != nil {
					t.Fatal(err)
				}
				group := lifecycle.New(t.Context())
				group.Go("manager", manager.Run)
				if err := manager.Cache().Wait(t.Context(), cache.Current); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				group.Stop()
				if err := group.Wait(); err != nil {
					t.Error(err)
				}
				want := test.says
				if !strings.HasPrefix(want, "ConfigMap") {
					want = "Secret default/x: " + want
				}
				if !errors.Is(failure, controller.ErrMutated) || !strings.HasSuffix(failure.Error(), want) {
					t.Errorf("the failure is %v, want %q at its end", failure, want)
				}
				if !strings.Contains(logged.String(), test.says) {
					t.Errorf("the log does not contain %q:\n%s", test.says, logged.String())
				}
				for where, text := range map[string]string{"failure": failure.Error(), "log": logged.String()} {
					for _, value := range []string{canary, "Y2FuYXJ5"} { // The second is the canary in base64.
						if strings.Contains(text, value) {
							t.Errorf("the %s has a value of the Secret:\n%s", where, text)
						}
					}
				}
			})
		})
	}
}
