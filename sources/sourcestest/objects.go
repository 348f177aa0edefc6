package sourcestest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// Create creates an object, with its status, and reads the stored object back. It fails as an API
// server does: check errors with the functions of k8s.io/apimachinery/pkg/api/errors.
func (s *Server) Create(object streams.Object) error {
	return s.write("create", object, func(place *served, given *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return s.create(place, given, tests)
	})
}

// Update replaces an object, with its status, and reads the stored object back. If the object has a
// resource version that is not the current one, Update fails with a conflict.
func (s *Server) Update(object streams.Object) error {
	return s.write("update", object, func(place *served, given *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return s.update(place, keyOf(given), given, tests)
	})
}

// Delete deletes the object with that namespace and name. An object with finalizers is marked, and
// deleted when the last finalizer is removed.
func (s *Server) Delete(object streams.Object) error {
	return s.do("delete", object, func(place *served) error {
		_, err := s.remove(place, keyOf(object), metav1.DeleteOptions{})
		return err
	})
}

// Get reads the object with that namespace and name into object.
func (s *Server) Get(object streams.Object) error {
	return s.do("get", object, func(place *served) error {
		found := place.objects[keyOf(object)]
		if found == nil {
			return apierrors.NewNotFound(place.GroupResource(), object.GetName())
		}
		return into(object, found.Object)
	})
}

// List reads all objects of a kind into a list, such as a *corev1.ConfigMapList, ordered by
// namespace and name.
func (s *Server) List(list runtime.Object) error {
	kinds, _, err := s.options.Scheme.ObjectKinds(list)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", list, err)
	}
	kind := kinds[0].GroupVersion().WithKind(strings.TrimSuffix(kinds[0].Kind, "List"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collect()
	place := s.places[kind]
	if place == nil {
		return fmt.Errorf("listing %v: the fake API server does not serve this kind; add it to the scheme or to Kinds", kind)
	}
	all := selection{place: place, labels: labels.Everything(), fields: fields.Everything()}
	return into(list, form{}.list(place, s.version, "", all.of(place.objects)))
}

// Uninstall removes the kind of an object, as the deletion of its resource definition does. The
// kind's objects are deleted, its watches end, and requests are answered with 404.
func (s *Server) Uninstall(object streams.Object) error {
	return s.do("uninstall", object, func(place *served) error {
		s.uninstall(place)
		return nil
	})
}

// Install restores the kind of an object, without objects.
func (s *Server) Install(object streams.Object) error {
	return s.at("install", object, func(place *served) error {
		place.gone = false
		return nil
	})
}

// at calls do with the kind of an object, under the lock.
func (s *Server) at(verb string, object streams.Object, do func(*served) error) error {
	failed := func(err error) error { return fmt.Errorf("cannot %s %T %s: %w", verb, object, keyOf(object), err) }
	kinds, _, err := s.options.Scheme.ObjectKinds(object)
	if err != nil {
		return failed(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collect()
	place := s.places[kinds[0]]
	if place == nil {
		return failed(fmt.Errorf("the fake API server does not serve %v; add it to the scheme or to Kinds", kinds[0]))
	}
	if err := do(place); err != nil {
		return failed(err)
	}
	return nil
}

// do calls at, and fails for kinds that are uninstalled.
func (s *Server) do(verb string, object streams.Object, do func(*served) error) error {
	return s.at(verb, object, func(place *served) error {
		if place.gone {
			return fmt.Errorf("%v is uninstalled; call Install first", place.kind)
		}
		return do(place)
	})
}

func (s *Server) write(verb string, object streams.Object, write func(*served, *unstructured.Unstructured) (*unstructured.Unstructured, error)) error {
	return s.do(verb, object, func(place *served) error {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return err
		}
		given := &unstructured.Unstructured{Object: content}
		given.SetGroupVersionKind(place.kind)
		stored, err := write(place, given)
		if err != nil {
			return err
		}
		return into(object, stored.Object)
	})
}

// into decodes stored content into an object or a list.
func into(target runtime.Object, content map[string]any) error {
	reflect.ValueOf(target).Elem().SetZero() // Fields that the stored content does not have must become zero.
	return json.Unmarshal(encoded(content), target)
}
