package up

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestTheFileOfTargetsFollowsThePodsOfTheOperator(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: install.Namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/name": "bellerophon-operator"},
		}}
	}
	other := pod("other")
	other.Labels = nil
	file := filepath.Join(t.TempDir(), podsFile)
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(pod("a"), other)
		group := lifecycle.New(t.Context())
		group.Go("follow", func(ctx context.Context) error { return (&run{}).followPods(ctx, client, "127.0.0.1:6443", file) })
		scraped := func() (pods []string) {
			t.Helper()
			<-time.After(2 * podsEvery)
			var targets []target
			content, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(content, &targets)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, target := range targets {
				if want := "/api/v1/namespaces/bellerophon-system/pods/http:" + target.Labels["pod"] + ":8080/proxy/metrics"; target.Labels["__metrics_path__"] != want || target.Targets[0] != "127.0.0.1:6443" {
					t.Errorf("the target is %+v", target)
				}
				pods = append(pods, target.Labels["pod"])
			}
			return pods
		}
		if pods := scraped(); len(pods) != 1 || pods[0] != "a" {
			t.Errorf("at first it scrapes %q", pods)
		}
		if err := client.Tracker().Add(pod("b")); err != nil {
			t.Fatal(err)
		}
		if pods := scraped(); len(pods) != 2 {
			t.Errorf("with another pod it scrapes %q", pods)
		}
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}
