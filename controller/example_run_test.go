package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestTheExampleOfATestPasses(t *testing.T) { aDeploymentGetsAServiceInSpiteOfFaults(t) }

func TestTheExampleOfASharedStreamPasses(t *testing.T) { twoFollowersShareTheEvents(t) }

func TestTheReconcilerOfTheReadmeCreatesAndRepairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{"app": "pegasus"}
		name := metav1.ObjectMeta{Namespace: "default", Name: "pegasus"}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		check := func(when string) *corev1.Service {
			t.Helper()
			<-time.After(time.Minute)
			service := &corev1.Service{ObjectMeta: name}
			must(server.Get(service))
			if service.Spec.Selector["app"] != "pegasus" || len(service.Spec.Selector) != 1 {
				t.Errorf("%s the selector is %v", when, service.Spec.Selector)
			}
			return service
		}
		must(server.Create(&appsv1.Deployment{ObjectMeta: name, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}}))
		foreign := metav1.ObjectMeta{Namespace: "default", Name: "arion"}
		must(server.Create(&corev1.Service{ObjectMeta: foreign, Spec: corev1.ServiceSpec{Selector: labels}}))
		must(server.Create(&appsv1.Deployment{ObjectMeta: foreign, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{}}}))
		group := lifecycle.New(t.Context())
		group.Go("manager", func(ctx context.Context) error { return runExpose(ctx, server.Config()) })
		drifted := check("at the start")
		drifted.Spec.Selector = map[string]string{"app": "chimera", "more": "x"}
		must(server.Update(drifted))
		check("after a drift")
		must(server.Delete(&corev1.Service{ObjectMeta: name}))
		check("after a deletion")
		left := &corev1.Service{ObjectMeta: foreign}
		must(server.Get(left))
		if len(left.OwnerReferences) > 0 || left.Spec.Selector["app"] != "pegasus" {
			t.Errorf("the Service of another owner was changed: %v", left)
		}
		group.Stop()
		must(group.Wait())
	})
}
