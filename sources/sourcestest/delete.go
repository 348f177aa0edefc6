package sourcestest

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
)

// deleted answers a DELETE of one object.
func (s *Server) deleted(place *served, made *request) (any, error) {
	options, err := s.deleteOptions(place, made)
	if err != nil {
		return nil, err
	}
	last, err := s.remove(place, made.key, options)
	if err != nil || last.GetDeletionTimestamp() != nil {
		return last, err
	}
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: last.GetName(), Group: place.Group, Kind: place.Resource, UID: last.GetUID()},
	}, nil
}

// deletedAll answers a DELETE of a collection with the objects that it deleted.
func (s *Server) deletedAll(place *served, made *request) (any, error) {
	options, err := s.deleteOptions(place, made)
	if err != nil {
		return nil, err
	}
	selected, err := made.selection(place)
	if err != nil {
		return nil, err
	}
	found := selected.of(place.objects)
	for _, object := range found {
		if made.key.Namespace == "" && object.GetNamespace() != "" {
			return nil, apierrors.NewMethodNotSupported(place.GroupResource(), http.MethodDelete)
		}
	}
	for i, object := range found {
		if found[i], err = s.remove(place, keyOf(object), options); err != nil {
			return nil, err
		}
	}
	return made.form.list(place, s.version, "", found), nil
}

// deleteOptions reads the options of a deletion from the body, or else from the query.
func (s *Server) deleteOptions(place *served, made *request) (metav1.DeleteOptions, error) {
	var options metav1.DeleteOptions
	if len(made.body) > 0 {
		kind := place.kind.GroupVersion().WithKind("DeleteOptions")
		if _, _, err := s.codecs.UniversalDeserializer().Decode(made.body, &kind, &options); err != nil {
			return options, apierrors.NewBadRequest(fmt.Sprintf("decoding the options of the deletion: %v", err))
		}
	} else if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&made.query, &options, nil); err != nil {
		return options, apierrors.NewBadRequest(err.Error())
	}
	if wrong := validation.ValidateDeleteOptions(&options); len(wrong) > 0 {
		return options, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("DeleteOptions").GroupKind(), "", wrong)
	}
	return options, nil
}

// remove deletes an object, or marks it for deletion while it has finalizers. It returns the last
// state of the object. The caller holds the lock.
func (s *Server) remove(place *served, key types.NamespacedName, options metav1.DeleteOptions) (*unstructured.Unstructured, error) {
	before := place.objects[key]
	if before == nil {
		return nil, apierrors.NewNotFound(place.GroupResource(), key.Name)
	}
	if conditions := options.Preconditions; conditions != nil {
		if err := onCondition(place, before, valueOf(conditions.UID), valueOf(conditions.ResourceVersion)); err != nil {
			return nil, err
		}
	}
	holding := finalizers(before.GetFinalizers(), options)
	switch {
	case len(holding) > 0:
	case len(options.DryRun) > 0:
		return before, nil
	default:
		return s.commit(place, key, nil), nil
	}
	after := before.DeepCopy()
	after.SetFinalizers(holding)
	if after.GetDeletionTimestamp() == nil {
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		after.SetDeletionTimestamp(&now)
		after.SetDeletionGracePeriodSeconds(new(int64))
		if generation := after.GetGeneration(); generation > 0 {
			after.SetGeneration(generation + 1)
		}
	}
	switch {
	case changesNothing(before, after):
		return before, nil
	case len(options.DryRun) > 0:
		return after, nil
	}
	return s.commit(place, key, after), nil
}

func valueOf[T any](pointer *T) (value T) {
	if pointer != nil {
		value = *pointer
	}
	return value
}

// finalizers returns the finalizers of an object that is deleted: those for the garbage collector depend on
// the propagation policy.
func finalizers(before []string, options metav1.DeleteOptions) []string {
	orphan, foreground := slices.Contains(before, metav1.FinalizerOrphanDependents), slices.Contains(before, metav1.FinalizerDeleteDependents)
	switch {
	case options.OrphanDependents != nil: //nolint:staticcheck // Clients may still send it.
		orphan, foreground = *options.OrphanDependents, false //nolint:staticcheck // see above
	case options.PropagationPolicy != nil:
		orphan = *options.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *options.PropagationPolicy == metav1.DeletePropagationForeground
	}
	after := slices.DeleteFunc(slices.Clone(before), isForCollector)
	if orphan {
		after = append(after, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		after = append(after, metav1.FinalizerDeleteDependents)
	}
	if len(after) == len(before) && !slices.ContainsFunc(after, func(name string) bool { return !slices.Contains(before, name) }) {
		return before // in their order
	}
	return after
}

func isForCollector(finalizer string) bool {
	return finalizer == metav1.FinalizerOrphanDependents || finalizer == metav1.FinalizerDeleteDependents
}
