package operator_test

import (
	"testing"

	simplev1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/hero"
	"github.com/bellerophon-io/bellerophon/bellerophon/operator"
	"github.com/bellerophon-io/bellerophon/bellerophon/simple"
	"github.com/bellerophon-io/bellerophon/controller"
	"k8s.io/client-go/rest"
)

func TestTheOperatorHasTheControllersAndTheKindsOfBellerophon(t *testing.T) {
	for further, names := range map[operator.Kinds][]string{{}: {simple.Name}, {Heroes: true}: {simple.Name, hero.Name}} {
		manager, err := operator.New(&rest.Config{Host: "https://127.0.0.1:1"}, controller.Options{}, further)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := manager.Remove(t.Context(), name); err != nil {
				t.Errorf("the controller %s is missing: %v", name, err)
			}
		}
	}
	types, err := operator.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if !types.Recognizes(simplev1.GroupVersion.WithKind("BellerophonSimple")) {
		t.Errorf("the scheme lacks BellerophonSimple")
	}
}
