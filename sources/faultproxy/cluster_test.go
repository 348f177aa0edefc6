package faultproxy_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// clients creates a client that bypasses a proxy, and a client of that proxy.
func clients(t *testing.T) (proxy *faultproxy.Proxy, past, through kubernetes.Interface) {
	t.Helper()
	cluster := clustertest.Shared(t)
	proxy, err := faultproxy.New(cluster.AdminConfig())
	must(t, err)
	config := proxy.Config()
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(func() {
		utilnet.CloseIdleConnectionsFor(client.Transport)
		must(t, proxy.Close())
	})
	past, err = kubernetes.NewForConfig(cluster.AdminConfig())
	must(t, err)
	through, err = kubernetes.NewForConfigAndClient(config, client)
	must(t, err)
	return proxy, past, through
}

func named(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestAWriteWhoseAnswerIsLostIsDoneOnARealServer(t *testing.T) {
	proxy, past, through := clients(t)
	namespace := clustertest.Namespace(t)
	must(t, proxy.Inject(faultproxy.Fault{Action: faultproxy.LoseAnswer, Match: faultproxy.Match{Verb: "create", Resource: "configmaps"}}))
	if made, err := through.CoreV1().ConfigMaps(namespace).Create(t.Context(), named("x"), metav1.CreateOptions{}); err == nil {
		t.Errorf("Create returned %v", made)
	}
	if _, err := past.CoreV1().ConfigMaps(namespace).Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
		t.Errorf("without the proxy: %v", err)
	}
}

func TestARefusalIsAStatusForClientGo(t *testing.T) {
	proxy, _, through := clients(t)
	must(t, proxy.Inject(faultproxy.Fault{Action: faultproxy.Refuse, Code: http.StatusForbidden}))
	_, err := through.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("List returned %v", err)
	}
}

func TestAWatchOfARealServerStallsAndAnotherOneGoesOn(t *testing.T) {
	proxy, past, through := clients(t)
	namespace := clustertest.Namespace(t)
	begin, err := past.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	open := func() watch.Interface {
		opened, err := through.CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: begin.ResourceVersion})
		must(t, err)
		t.Cleanup(opened.Stop)
		return opened
	}
	stalled := open()
	if struck := proxy.Stall(faultproxy.Match{Verb: "watch", Namespace: namespace}); struck != 1 {
		t.Fatalf("%d watches stalled, want 1", struck)
	}
	healthy := open()
	_, err = past.CoreV1().ConfigMaps(namespace).Create(t.Context(), named("x"), metav1.CreateOptions{})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	select {
	case event := <-healthy.ResultChan():
		if made, is := event.Object.(*corev1.ConfigMap); !is || made.Name != "x" {
			t.Errorf("the healthy watch received %v", event)
		}
	case <-ctx.Done():
		t.Error("the healthy watch received nothing")
	}
	select {
	case event, open := <-stalled.ResultChan():
		t.Errorf("the stalled watch received %v (open: %t)", event, open)
	case <-time.After(short):
	}
}
