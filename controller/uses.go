package controller

import (
	"fmt"
	"slices"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// used is a kind that controllers name with Uses.
type used struct {
	form  *form
	users int
}

// suffices returns an error if the watch is of a kind that controllers name with Uses, and lacks objects
// that they would read.
func (w *watched) suffices(kind schema.GroupKind) error {
	restricted := w.options.LabelSelector != "" || w.options.FieldSelector != "" || w.demand.restricts
	if w.kind.GroupKind() != kind || !restricted {
		return nil
	}
	return fmt.Errorf("%v is named with Uses in one controller, and watched with a selector or OnDemand in another; the reads of the first would miss objects. "+
		"Watch the kind without these, or run the controllers in two managers", kind)
}

// Uses declares a kind that is read and written live, as the option [Uses] of a controller does. It is for a
// program that learns kinds while it runs. It may be called before, during and after Run, from any goroutine, and
// again for the same kind. The kind stays declared. Of the options, [OfKind], [Plural] and [ClusterScoped]
// apply.
func (m *Manager) Uses(object streams.Object, options ...InputOption) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	made, forms := &member{}, m.client.forms.Load().copy()
	if err := m.use(made, forms, newInput(object, nil, options)); err != nil {
		return fmt.Errorf("declaring a kind: %w", err)
	}
	now := m.present.Load().copy()
	for _, used := range made.uses {
		if used.users++; !slices.Contains(now.uses, used) {
			now.uses = append(now.uses, used)
		}
	}
	m.client.forms.Store(&forms)
	m.present.Store(now)
	return nil
}

// use adds a kind that a controller names with Uses.
func (m *Manager) use(made *member, forms forms, input *input) error {
	if input.wrong != nil {
		return input.wrong
	}
	kind, err := sources.KindOf(m.scheme, input.object, input.kind...)
	if err != nil {
		return err
	}
	if kind.Form() != sources.Whole || !input.namesOnlyItsKind() {
		return fmt.Errorf("Uses of %v: give an object of the API type, and no option but OfKind, Plural and ClusterScoped", kind.GroupKind())
	}
	for _, watched := range slices.Concat(m.present.Load().watches, made.watches, made.optional) {
		if err := watched.suffices(kind.GroupKind()); err != nil {
			return err
		}
	}
	for _, known := range slices.Concat(m.present.Load().uses, made.uses) {
		if known.form.as.GroupVersionKind == kind.GroupVersionKind && known.form.as.Type() == kind.Type() {
			if !slices.Contains(made.uses, known) {
				made.uses = append(made.uses, known)
			}
			return nil
		}
	}
	requests, err := m.clientOf(kind)
	if err != nil {
		return err
	}
	added := &used{form: &form{client: m.client, as: kind, requests: requests}}
	made.uses = append(made.uses, added)
	forms.use(added)
	return nil
}
