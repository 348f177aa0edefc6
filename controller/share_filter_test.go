package controller_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// filtered is a replica of objects that are shared by namespace.
type filtered struct {
	manager  *controller.Manager
	registry *prometheus.Registry
	group    *lifecycle.Group
}

// Replicas share objects by namespace on an API server with the gate ShardedListAndWatch.
func TestAnAPIWithShardedWatchesSendsEachReplicaItsShare(t *testing.T) {
	cluster, err := localcluster.Start(t.Context(), localcluster.Options{APIOnly: true, FeatureGates: []string{"ShardedListAndWatch"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	const count = 40
	create := func(i int) {
		t.Helper()
		namespace := fmt.Sprintf("%x-tenant", i*7919)
		_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		if err == nil {
			_, err = client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"shared": "yes"}}}, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range count - 1 {
		create(i)
	}
	replicas := []*filtered{newFiltered(t, cluster), newFiltered(t, cluster)}
	awaitFiltered(t, replicas, count-1)
	create(count - 1)
	awaitFiltered(t, replicas, count)
	for i, replica := range replicas {
		if page := scraped(t, replica.registry); !strings.Contains(page, `bellerophon_shard_filter{by="server",kind="ConfigMap"} 1`) {
			t.Errorf("replica %d drops objects at the door", i)
		}
	}
	replicas[0].group.Stop()
	if err := replicas[0].group.Wait(); err != nil {
		t.Error(err)
	}
	awaitFiltered(t, replicas[1:], count)
	replicas[1].group.Stop()
	if err := replicas[1].group.Wait(); err != nil {
		t.Error(err)
	}
}

func newFiltered(t *testing.T, cluster *localcluster.Cluster) *filtered {
	t.Helper()
	made := &filtered{registry: prometheus.NewRegistry(), group: lifecycle.New(t.Context())}
	var err error
	made.manager, err = controller.NewManager(cluster.AdminConfig(), scheme.Scheme, controller.Options{
		Registry: made.registry, Logger: slog.New(slog.DiscardHandler), OnError: func(err error) { t.Log(err) },
		Shards: &shards.Options{Group: "filtered", Namespace: "default", LeaseDuration: 5 * time.Second, ByNamespace: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := made.manager.Add("configs", nothing, controller.For(&corev1.ConfigMap{}, controller.LabelSelector("shared=yes"))); err != nil {
		t.Fatal(err)
	}
	made.group.Go("manager", made.manager.Run)
	return made
}

// awaitFiltered waits until each object is in the cache of one replica, and each replica has some.
func awaitFiltered(t *testing.T, replicas []*filtered, count int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		held, least := 0, count
		for _, replica := range replicas {
			if err := replica.manager.Cache().Wait(ctx, cache.Current); err != nil {
				t.Fatal(err)
			}
			own := len(listed[*corev1.ConfigMap](replica.manager.Client()))
			held, least = held+own, min(least, own)
		}
		if held == count && least > 0 {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the replicas hold %d objects, and the one with the fewest %d, of %d", held, least, count)
		}
	}
}
