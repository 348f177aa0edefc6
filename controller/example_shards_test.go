package controller_test

import (
	"fmt"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Replicas of one program share the objects of its controllers.
func ExampleUnsharded() {
	manager, err := controller.NewManager(&rest.Config{}, scheme.Scheme, controller.Options{
		Shards: &shards.Options{Group: "hero-operator", Namespace: "operators"},
	})
	fmt.Println(manager != nil, err)
	// Output: true <nil>
}
