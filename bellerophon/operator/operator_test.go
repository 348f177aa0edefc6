package operator_test

import (
	"testing"

	simplev1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/operator"
	"github.com/bellerophon-io/bellerophon/bellerophon/simple"
	"github.com/bellerophon-io/bellerophon/controller"
	"k8s.io/client-go/rest"
)

func TestTheOperatorHasTheControllersAndTheKindsOfBellerophon(t *testing.T) {
	manager, err := operator.New(&rest.Config{Host: "https://127.0.0.1:1"}, controller.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.Remove(t.Context(), simple.Name); err != nil {
		t.Errorf("the controller %s is missing: %v", simple.Name, err)
	}
	types, err := operator.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if !types.Recognizes(simplev1.GroupVersion.WithKind("BellerophonSimple")) {
		t.Errorf("the scheme lacks BellerophonSimple")
	}
}
