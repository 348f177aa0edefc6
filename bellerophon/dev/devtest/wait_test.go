package devtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestAStatusIsAwaited(t *testing.T) {
	client, err := kubernetes.NewForConfig(clustertest.Shared(t).AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	namespace := clustertest.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen, wrote := make(chan contract.State, 8), lifecycle.New(ctx)
	wrote.Go("write", func(ctx context.Context) error {
		for _, state := range []contract.State{contract.PodRunning, contract.RunCommandRunning} {
			config, err := contract.Status{State: state}.ConfigMap(namespace, "app")
			if err != nil {
				return err
			}
			if state == contract.PodRunning {
				_, err = client.CoreV1().ConfigMaps(namespace).Create(ctx, config, metav1.CreateOptions{})
			} else {
				_, err = client.CoreV1().ConfigMaps(namespace).Update(ctx, config, metav1.UpdateOptions{})
			}
			if err != nil {
				return err
			}
			select {
			case <-seen:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	status, err := WaitStatus(ctx, client, namespace, "app", func(status contract.Status) bool {
		seen <- status.State
		return status.State == contract.RunCommandRunning
	})
	if err != nil || status.State != contract.RunCommandRunning {
		t.Errorf("got %+v: %v", status, err)
	}
	if err := wrote.Wait(); err != nil {
		t.Error(err)
	}

	short, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	_, err = WaitStatus(short, client, namespace, "app", func(contract.Status) bool { return false })
	if err == nil || !strings.Contains(err.Error(), string(contract.RunCommandRunning)) {
		t.Errorf("the error of a wait that ends is %v, want the last Status", err)
	}
}
