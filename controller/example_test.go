package controller_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// Example tests a reconciler. The whole manager runs in virtual time over an API server of
// sourcestest, which fails as the script of the test says. Backoffs take no real time, and an
// object that is missing after two minutes will never be created.
func Example() {
	var t *testing.T // the t of your test
	aDeploymentGetsAServiceInSpiteOfFaults(t)
}

// expose is the reconciler: every deployment has a service of its name.
func expose(client *controller.Client) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		deployment, err := controller.Get[*appsv1.Deployment](ctx, client, request.NamespacedName)
		if err != nil {
			return 0, controller.IgnoreNotFound(err)
		}
		if _, err = controller.Get[*corev1.Service](ctx, client, request.NamespacedName); !apierrors.IsNotFound(err) {
			return 0, err
		}
		_, err = controller.Create(ctx, client, &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: deployment.Namespace, Name: deployment.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		}})
		return 0, err
	}
}

func aDeploymentGetsAServiceInSpiteOfFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{
			Scheme: scheme.Scheme,
			Script: []sourcestest.Fault{
				{Action: sourcestest.Refuse, Verb: "create", Resource: "services", Code: http.StatusInternalServerError},
				{Action: sourcestest.Cut, Type: "DELETED", Resource: "services"},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		manager, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{DetectMutations: true, OnError: func(error) {}})
		if err != nil {
			t.Fatal(err)
		}
		if err := manager.Add("expose", expose(manager.Client()), controller.For(&appsv1.Deployment{}), controller.Owns(&corev1.Service{})); err != nil {
			t.Fatal(err)
		}

		name := metav1.ObjectMeta{Namespace: "default", Name: "pegasus"}
		if err := server.Create(&appsv1.Deployment{ObjectMeta: name}); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() {
			// This fails if there is no service yet.
			if err := server.Delete(&corev1.Service{ObjectMeta: name}); err != nil {
				t.Error("after the creation was refused:", err)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Minute, cancel)
		if err := manager.Run(ctx); err != nil {
			t.Error(err)
		}

		if err := server.Get(&corev1.Service{ObjectMeta: name}); err != nil {
			t.Error("after it was deleted:", err)
		}
		counts := server.Counts()
		if counts.Requests["create services"] != 3 || counts.Faults[sourcestest.Cut] != 1 {
			t.Errorf("the server saw %v", counts)
		}
	})
}
