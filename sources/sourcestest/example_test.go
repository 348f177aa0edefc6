package sourcestest_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// The watch in this example sends its second event twice. The example in package controller runs a
// whole manager on the server, in virtual time.
func ExampleServer() {
	server, err := sourcestest.New(sourcestest.Options{
		Scheme: scheme.Scheme,
		Script: []sourcestest.Fault{{Action: sourcestest.Duplicate, Type: "ADDED", Nth: 2}},
	})
	if err != nil {
		panic(err)
	}
	kind, err := sources.KindOf(scheme.Scheme, &corev1.ConfigMap{})
	if err != nil {
		panic(err)
	}
	client, err := kind.Client(server.Config(), &http.Client{Transport: server})
	if err != nil {
		panic(err)
	}
	create := func(name string) {
		if err := server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
			panic(err)
		}
	}

	create("pegasus")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	applied := 0
	_ = streams.ForEach(ctx, sources.Watch(client, kind, sources.WatchOptions{}), func(events []streams.Event) {
		for _, event := range events {
			fmt.Printf("%v %s@%s\n", event.Type, event.Key.Name, event.ResourceVersion)
			switch event.Type {
			case streams.ListEnd:
				create("chimera")
			case streams.Applied:
				if applied++; applied == 2 {
					cancel()
				}
			}
		}
	}, nil)
	fmt.Println(server.Counts().Faults)
	// Output:
	// ListStart @
	// Listed pegasus@2
	// ListEnd @2
	// Applied chimera@3
	// Applied chimera@3
	// map[Duplicate:1]
}
