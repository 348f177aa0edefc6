package render_test

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

func TestTheRequestsOfTheOperatorGetThePriorityLevelThatIsAskedFor(t *testing.T) {
	manifests := operator(t, map[string]any{
		"flowControl":    map[string]any{"priorityLevel": "workload-high"},
		"serviceAccount": map[string]any{"create": false, "name": "rider"},
	})
	for _, object := range manifests.Objects {
		if object.GetKind() != "FlowSchema" {
			continue
		}
		schema := decoded(t, object, &flowcontrolv1.FlowSchema{})
		account := schema.Spec.Rules[0].Subjects[0].ServiceAccount
		if schema.Name != "home-bellerophon" || schema.Spec.PriorityLevelConfiguration.Name != "workload-high" || schema.Spec.MatchingPrecedence != 1000 ||
			account.Namespace != "home" || account.Name != "rider" {
			t.Errorf("the flow schema is %+v", schema)
		}
		return
	}
	t.Errorf("there is no FlowSchema: %q", names(manifests.Objects))
}

func TestWithoutAPriorityLevelTheAPIServerDecides(t *testing.T) {
	for _, object := range operator(t, nil).Objects {
		if object.GetKind() == "FlowSchema" {
			t.Errorf("there is a FlowSchema: %v", object)
		}
	}
}
