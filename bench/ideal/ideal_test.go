package ideal_test

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bench/ideal"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

func TestABurstIsFinishedWithFiveWritesForEachObjectOverOneConnection(t *testing.T) {
	const objects = 20
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	admin := clustertest.Shared(t).AdminConfig()
	if _, err := install.Operator(ctx, admin, install.Options{}); err != nil {
		t.Fatal(err)
	}
	namespace := clustertest.Namespace(t)
	config := clustertest.Shared(t).AdminConfig()
	var connections atomic.Int64
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		connections.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	burst := ideal.Burst{Namespace: namespace, Prefix: "pegasus", Objects: objects, InFlight: 8, Replicas: 1}
	result, err := burst.Run(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d objects in %v, %.0f/s; the first after %v, the last after %v", objects, result.Elapsed,
		objects/result.Elapsed.Seconds(), result.Latencies[0], result.Latencies[objects-1])
	if result.Writes != 5*objects || len(result.Latencies) != objects {
		t.Errorf("%d writes and %d latencies, want %d and %d", result.Writes, len(result.Latencies), 5*objects, objects)
	}
	for _, latency := range result.Latencies {
		if latency <= 0 || latency > result.Elapsed {
			t.Errorf("a latency of %v, want more than 0 and at most the %v of all", latency, result.Elapsed)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	client, err := dynamic.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.Resource(v1.GroupVersion.WithResource(v1.Plural)).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != objects {
		t.Fatalf("there are %d objects, %v, want %d", len(list.Items), err, objects)
	}
	for _, object := range list.Items {
		if ready, _, _ := unstructured.NestedInt64(object.Object, "status", "readyReplicas"); ready != 1 {
			t.Errorf("%s: %d servers are ready, want 1", object.GetName(), ready)
		}
	}
}

func TestABurstThatCannotBeSaysWhy(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	config := clustertest.Shared(t).AdminConfig()
	for name, burst := range map[string]ideal.Burst{
		"no objects":   {Namespace: "default", Objects: 0, InFlight: 1},
		"no namespace": {Objects: 1, InFlight: 1},
		"no slot":      {Namespace: "default", Objects: 1},
		"a namespace that does not exist": {
			Namespace: "no-such-namespace", Prefix: "pegasus", Objects: 3, InFlight: 2,
		},
	} {
		if result, err := burst.Run(ctx, config); err == nil {
			t.Errorf("%s: %v, want an error", name, result)
		}
	}
}

func TestAnObjectThatIsNotFinishedInTimeSaysSoOnceAndThenThatItIsFinished(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	config := clustertest.Shared(t).AdminConfig()
	if _, err := install.Operator(ctx, config, install.Options{}); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	group := lifecycle.New(running)
	group.Go("the ideal client", func(ctx context.Context) error {
		return ideal.Run(ctx, config, 4, time.Nanosecond, slog.New(slog.DiscardHandler))
	})
	defer func() {
		stop()
		_ = group.Wait() // The error of the context that was just cancelled.
	}()
	heroes := client.Resource(v1.GroupVersion.WithResource(v1.Plural)).Namespace(clustertest.Namespace(t))
	watcher, err := heroes.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(1)}}}
	object.SetGroupVersionKind(v1.GroupVersion.WithKind(v1.Kind))
	object.SetName("arion")
	if _, err := heroes.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var told []string
	for !slices.Contains(told, v1.ReasonAllReplicasReady) {
		select {
		case event := <-watcher.ResultChan():
			object, is := event.Object.(*unstructured.Unstructured)
			if !is {
				t.Fatalf("the watch ended with %v", event.Object)
			}
			conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
			for _, condition := range conditions {
				if ready := condition.(map[string]any); ready["type"] == v1.ConditionReady {
					told = append(told, ready["reason"].(string))
				}
			}
		case <-ctx.Done():
			t.Fatalf("the object told %q", told)
		}
	}
	if want := []string{v1.ReasonPending, v1.ReasonReplicasNotReady, v1.ReasonAllReplicasReady}; !slices.Equal(told, want) {
		t.Errorf("the object told %q, want %q", told, want)
	}
}
