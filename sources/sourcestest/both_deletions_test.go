package sourcestest_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var deletions = []behaviour{
	{name: "a deletion may have preconditions", run: func(s *site) {
		made := s.create(configMaps, labelled("ConfigMap", "conditional", "conditional"))
		uid, version := types.UID("another"), "1"
		s.delete(configMaps, "conditional", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		s.delete(configMaps, "conditional", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
		uid, version = made.GetUID(), made.GetResourceVersion()
		s.delete(configMaps, "conditional", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
		s.delete(configMaps, "conditional", metav1.DeleteOptions{})
	}},
	{name: "the options of a deletion are checked", run: func(s *site) {
		s.create(configMaps, object("v1", "ConfigMap", "", "checked"))
		s.cascade(configMaps, "checked", "Sideways")
		orphan, policy := true, metav1.DeletePropagationOrphan
		s.delete(configMaps, "checked", metav1.DeleteOptions{OrphanDependents: &orphan, PropagationPolicy: &policy}) //nolint:staticcheck // Clients may still send it.
		s.delete(configMaps, "checked", metav1.DeleteOptions{DryRun: []string{"Some"}})
		s.get(configMaps, "checked")
	}},
	{name: "an object with finalizers is marked and goes with the last one", run: func(s *site) {
		until := s.watch(heroes, "case=held")
		s.create(heroes, hero("held", "metadata.labels.case", "held", "metadata.finalizers", []any{"example.org/a", "example.org/b"}, "spec.wings", int64(2)))
		s.delete(heroes, "held", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		s.get(heroes, "held")
		s.delete(heroes, "held", metav1.DeleteOptions{})
		s.get(heroes, "held")
		s.delete(heroes, "held", metav1.DeleteOptions{})
		s.patch(heroes, "held", types.MergePatchType, `{"metadata":{"finalizers":["example.org/a","example.org/c"]}}`)
		s.patch(heroes, "held", types.MergePatchType, `{"metadata":{"finalizers":["example.org/a"]}}`)
		s.patch(heroes, "held", types.MergePatchType, `{"metadata":{"deletionTimestamp":null}}`)
		s.create(heroes, hero("held"))
		s.patch(heroes, "held", types.JSONPatchType, `[{"op":"remove","path":"/metadata/finalizers"}]`)
		s.get(heroes, "held")
		until("DELETED held")
	}},
	{name: "dependents go after their last owner", run: func(s *site) {
		until := s.watch(configMaps, "case=background")
		first := s.create(secrets, labelled("Secret", "background-1", "background", "type", "Opaque"))
		second := s.create(secrets, labelled("Secret", "background-2", "background", "type", "Opaque"))
		child := s.create(configMaps, owned(labelled("ConfigMap", "background-child", "background"), false, first, second))
		s.create(configMaps, owned(labelled("ConfigMap", "background-grandchild", "background"), true, child))
		s.cascade(secrets, "background-1", metav1.DeletePropagationBackground)
		until("MODIFIED background-child")
		s.get(configMaps, "background-child")
		until = s.watch(configMaps, "case=background")
		s.delete(secrets, "background-2", metav1.DeleteOptions{})
		until("DELETED background-grandchild")
	}},
	{name: "a dependent of an owner that never was is deleted", run: func(s *site) {
		until := s.watch(configMaps, "case=stray")
		ghost := labelled("Secret", "ghost", "stray")
		ghost.SetUID("00000000-0000-4000-8000-00000000abcd")
		s.create(configMaps, owned(labelled("ConfigMap", "stray", "stray", "metadata.finalizers", []any{"example.org/held"}), false, ghost))
		until("MODIFIED stray")
		s.patch(configMaps, "stray", types.MergePatchType, `{"metadata":{"finalizers":null}}`)
		s.get(configMaps, "stray")
	}},
	// The real collector sees owners and dependents of one kind in the order of their versions. Of two kinds it may see
	// the deletion of an owner before it has seen the dependent.
	{name: "in the foreground an owner waits for the dependents that block it", run: func(s *site) {
		until := s.watch(configMaps, "case=foreground")
		owner := s.create(configMaps, labelled("ConfigMap", "foreground", "foreground"))
		s.create(configMaps, owned(labelled("ConfigMap", "foreground-held", "foreground", "metadata.finalizers", []any{"example.org/held"}), true, owner))
		s.cascade(configMaps, "foreground", metav1.DeletePropagationForeground)
		s.get(configMaps, "foreground")
		until("MODIFIED foreground-held")
		until = s.watch(configMaps, "case=foreground")
		s.patch(configMaps, "foreground-held", types.MergePatchType, `{"metadata":{"finalizers":null}}`)
		until("DELETED foreground")
	}},
	{name: "in the foreground an owner does not wait for other dependents", run: func(s *site) {
		untilOwner, until := s.watch(configMaps, "case=free-owner"), s.watch(configMaps, "case=free")
		owner := s.create(configMaps, labelled("ConfigMap", "free-owner", "free-owner"))
		s.create(configMaps, owned(labelled("ConfigMap", "free-held", "free", "metadata.finalizers", []any{"example.org/held"}), false, owner))
		s.cascade(configMaps, "free-owner", metav1.DeletePropagationForeground)
		untilOwner("DELETED free-owner")
		until("MODIFIED free-held")
		s.patch(configMaps, "free-held", types.MergePatchType, `{"metadata":{"finalizers":null}}`)
	}},
	{name: "in the foreground all generations go, the last one first", run: func(s *site) {
		until := s.watch(configMaps, "case=generations")
		owner := s.create(configMaps, labelled("ConfigMap", "generations-1", "generations"))
		child := s.create(configMaps, owned(labelled("ConfigMap", "generations-2", "generations"), true, owner))
		s.create(configMaps, owned(labelled("ConfigMap", "generations-3", "generations"), true, child))
		s.cascade(configMaps, "generations-1", metav1.DeletePropagationForeground)
		until("DELETED generations-1")
	}},
	{name: "a finalizer of the object chooses the policy", run: func(s *site) {
		until := s.watch(configMaps, "case=chosen")
		owner := s.create(configMaps, labelled("ConfigMap", "chosen", "chosen", "metadata.finalizers", []any{metav1.FinalizerDeleteDependents}))
		s.create(configMaps, owned(labelled("ConfigMap", "chosen-child", "chosen"), true, owner))
		s.delete(configMaps, "chosen", metav1.DeleteOptions{})
		until("DELETED chosen")
	}},
	{name: "the old way to choose a policy still works", run: func(s *site) {
		orphan := true
		until := s.watch(configMaps, "case=old")
		owner := s.create(configMaps, labelled("ConfigMap", "old", "old"))
		s.create(configMaps, owned(labelled("ConfigMap", "old-child", "old"), true, owner))
		s.delete(configMaps, "old", metav1.DeleteOptions{OrphanDependents: &orphan}) //nolint:staticcheck // Clients may still send it.
		until("DELETED old")
	}},
	{name: "the policy of a deletion wins over a finalizer", run: func(s *site) {
		s.create(configMaps, labelled("ConfigMap", "overruled", "overruled", "metadata.finalizers", []any{metav1.FinalizerOrphanDependents}))
		s.cascade(configMaps, "overruled", metav1.DeletePropagationBackground)
		s.get(configMaps, "overruled")
	}},
	{name: "a circle of owners goes in the foreground", run: func(s *site) {
		until := s.deletions(configMaps, "case=circle")
		first := s.create(configMaps, labelled("ConfigMap", "circle-1", "circle"))
		second := s.create(configMaps, owned(labelled("ConfigMap", "circle-2", "circle"), true, first))
		s.update(configMaps, owned(first.DeepCopy(), true, second))
		s.cascade(configMaps, "circle-1", metav1.DeletePropagationForeground)
		until("circle-1", "circle-2")
	}},
	{name: "orphans stay without their owner", run: func(s *site) {
		until := s.watch(configMaps, "case=orphan")
		owner := s.create(configMaps, labelled("ConfigMap", "orphan", "orphan"))
		s.create(configMaps, owned(labelled("ConfigMap", "orphan-child", "orphan"), true, owner))
		s.cascade(configMaps, "orphan", metav1.DeletePropagationOrphan)
		until("DELETED orphan")
		s.get(configMaps, "orphan-child")
	}},
	{name: "an owner by another name is none", run: func(s *site) {
		owner := s.create(secrets, labelled("Secret", "misnamed", "misnamed", "type", "Opaque"))
		until := s.watch(configMaps, "case=misnamed")
		renamed := owner.DeepCopy()
		renamed.SetName("renamed")
		s.create(configMaps, owned(labelled("ConfigMap", "misnamed", "misnamed"), false, renamed))
		until("DELETED misnamed")
	}},
}

var collections = []behaviour{
	{name: "a collection is deleted by its selectors", run: func(s *site) {
		for _, name := range []string{"many-1", "many-2", "many-3"} {
			s.create(configMaps, labelled("ConfigMap", name, "many"))
		}
		s.create(configMaps, labelled("ConfigMap", "many-held", "many", "metadata.finalizers", []any{"example.org/held"}))
		s.create(configMaps, labelled("ConfigMap", "many-other", "other"))
		until := s.watch(configMaps, "case=many")
		remove := func(options metav1.DeleteOptions, selector metav1.ListOptions) {
			s.did("delete the collection", nil, s.in(configMaps).DeleteCollection(s.ctx, options, selector))
		}
		remove(metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ListOptions{LabelSelector: "case=many"})
		s.get(configMaps, "many-1")
		remove(metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "case=many", FieldSelector: "metadata.name=many-2"})
		until("DELETED many-2")
		s.get(configMaps, "many-1")
		remove(metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "case=many"})
		s.get(configMaps, "many-3")
		s.get(configMaps, "many-held")
		s.get(configMaps, "many-other")
		remove(metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "!!"})
		s.did("delete it in all namespaces", nil, s.client.Resource(configMaps).DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "case=other"}))
		s.patch(configMaps, "many-held", types.MergePatchType, `{"metadata":{"finalizers":null}}`)
	}},
	{name: "selectors select lists", run: func(s *site) {
		for _, name := range []string{"list-1", "list-2"} {
			s.create(configMaps, labelled("ConfigMap", name, "list", "metadata.labels.name", name))
		}
		for _, options := range []metav1.ListOptions{
			{LabelSelector: "case=list"}, {LabelSelector: "case=list,name!=list-1"}, {LabelSelector: "case in (list),name"}, {LabelSelector: "case=list,!name"},
			{LabelSelector: "case=list", FieldSelector: "metadata.name=list-2"}, {FieldSelector: "data.a=b"}, {LabelSelector: "case=list", Limit: 1},
		} {
			list, err := s.in(configMaps).List(s.ctx, options)
			s.did("list "+options.String(), nil, err)
			if err == nil {
				for i := range list.Items {
					s.did("item", &list.Items[i], nil)
				}
			}
		}
	}},
}
