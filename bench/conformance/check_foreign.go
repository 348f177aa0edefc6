package conformance

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var foreignChecks = []check{
	{"6.1", "A child without an owner and without the labels of the contract is left alone", ofOperators, leavesAnonymous},
	{"6.2", "A child that another object controls is left alone, whatever its labels", ofOperators, leavesControlled},
}

func leavesAnonymous(ctx context.Context, t *trial) error {
	return t.leaves(ctx, func(object *unstructured.Unstructured) {
		object.SetLabels(map[string]string{"theirs": "yes"})
		object.SetOwnerReferences(nil)
	})
}

func leavesControlled(ctx context.Context, t *trial) error {
	landlord := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "landlord"}}}
	made, err := t.any.Resource(configMaps).Namespace(t.namespace).Create(ctx, landlord, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the owner of the foreign children: %w", err)
	}
	return t.leaves(ctx, func(object *unstructured.Unstructured) {
		object.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: "landlord", UID: made.GetUID(), Controller: new(true),
		}})
	})
}

// leaves creates a foreign child of each kind, and then objects with the same names. It returns
// an error if the process changes a foreign child.
func (t *trial) leaves(ctx context.Context, theirs func(*unstructured.Unstructured)) error {
	foreign := make([]*unstructured.Unstructured, len(children))
	for i, child := range children {
		hero := t.hero(fmt.Sprintf("pegasus-%d", i), 0)
		hero.UID = "nobody"
		manifests, err := written(hero)
		if err != nil {
			return err
		}
		theirs(manifests[i])
		if child == configMaps {
			manifests[i].Object["data"] = map[string]any{"theirs": "yes"}
		}
		if foreign[i], err = t.any.Resource(child).Namespace(t.namespace).Create(ctx, manifests[i], metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create the foreign %s: %w", child.Resource, err)
		}
	}
	mark := t.proxy.mark()
	if _, err := t.createAll(ctx, slices.Repeat([]int32{1}, len(children))...); err != nil {
		return err
	}
	if err := t.marker(ctx); err != nil {
		return err
	}
	touches := func(c *call) bool {
		for i, child := range children {
			if t.isWrite(c) && c.Resource == child.Resource && c.Name == foreign[i].GetName() && c.code != 0 && c.code < 400 {
				return true
			}
		}
		return false
	}
	within, cancel := context.WithTimeout(ctx, t.options.Quiet)
	defer cancel()
	found, err := t.proxy.await(within, mark, touches, some)
	if err == nil {
		return fmt.Errorf("the child has another owner or none, and the process wrote: %v", &found[0])
	}
	for i, child := range children {
		is, err := t.get(ctx, child, foreign[i].GetName())
		if err != nil {
			return err
		}
		if is.GetUID() != foreign[i].GetUID() {
			return fmt.Errorf("the foreign %s was replaced", child.Resource)
		}
		if err := same(foreign[i], is); err != nil {
			return fmt.Errorf("the foreign %s was changed: %w", child.Resource, err)
		}
	}
	tried := t.proxy.since(mark, func(c *call) bool { return t.isWrite(c) && c.code >= 400 })
	t.note("%d writes were refused meanwhile", len(tried))
	return nil
}
