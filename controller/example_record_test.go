package controller_test

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// A stage records what the watches of a manager emit. Later, for example in a test that examines a bug, another
// manager gets the recording in place of its watches.
func ExampleStage_recording() {
	run := func(server *sourcestest.Server, stage controller.Stage) {
		manager, err := controller.NewManager(server.Config(), scheme.Scheme, controller.Options{Stages: []controller.Stage{stage}})
		if err != nil {
			panic(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		reconcile := func(ctx context.Context, request operators.Request) (time.Duration, error) {
			config, err := controller.Get[*corev1.ConfigMap](ctx, manager.Client(), request.NamespacedName)
			if err == nil {
				fmt.Println(stage.Name, config.Name, "with", config.Data["horse"])
				stop()
			}
			return 0, err
		}
		err = manager.Add("heroes", reconcile, controller.For(&corev1.ConfigMap{}))
		if err == nil {
			err = manager.Run(ctx)
		}
		if err != nil {
			panic(err)
		}
	}

	var recording bytes.Buffer // or a file
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		panic(err)
	}
	hero := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hero"}, Data: map[string]string{"horse": "pegasus"}}
	if err := server.Create(hero); err != nil {
		panic(err)
	}
	run(server, controller.Stage{Name: "recorded", Run: func(events streams.Stream[streams.Event]) streams.Stream[streams.Event] {
		return sourcestest.Record(events, &recording)
	}})

	played, err := sourcestest.Play(&recording, &corev1.ConfigMap{})
	if err != nil {
		panic(err)
	}
	empty, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		panic(err)
	}
	run(empty, controller.Stage{Name: "played", Run: func(streams.Stream[streams.Event]) streams.Stream[streams.Event] { return played }})
	// Output:
	// recorded hero with pegasus
	// played hero with pegasus
}
