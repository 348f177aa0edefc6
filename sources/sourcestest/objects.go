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

// Create creates an object, with its status, and reads back what is stored. It fails as an
// API server does: test errors with the functions of k8s.io/apimachinery/pkg/api/errors.
func (s *Server) Create(object streams.Object) error {
	return s.write("create", object, s.create)
}

// Update replaces an object, with its status, and reads back what is stored. If it has a
// resource version, and that is not the current one, it is a conflict.
func (s *Server) Update(object streams.Object) error {
	return s.write("update", object, func(place *served, given *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return s.update(place, keyOf(given), given, whole)
	})
}

// Delete deletes the object of that namespace and name. One with finalizers is marked, and
// goes with the last of them.
func (s *Server) Delete(object streams.Object) error {
	return s.do("delete", object, func(place *served) error {
		_, err := s.remove(place, keyOf(object), metav1.Preconditions{})
		return err
	})
}

// Get reads the object of that namespace and name into it.
func (s *Server) Get(object streams.Object) error {
	return s.do("get", object, func(place *served) error {
		found := place.objects[keyOf(object)]
		if found == nil {
			return apierrors.NewNotFound(place.GroupResource(), object.GetName())
		}
		return into(object, found.Object)
	})
}

// List reads all objects of a kind into a list, such as a *corev1.ConfigMapList, by
// namespace and name.
func (s *Server) List(list runtime.Object) error {
	kinds, _, err := s.options.Scheme.ObjectKinds(list)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", list, err)
	}
	kind := kinds[0].GroupVersion().WithKind(strings.TrimSuffix(kinds[0].Kind, "List"))
	s.mu.Lock()
	defer s.mu.Unlock()
	place := s.places[kind]
	if place == nil {
		return fmt.Errorf("listing %v: the fake API server does not serve it; add it to the scheme or to Kinds", kind)
	}
	all := selection{place: place, labels: labels.Everything(), fields: fields.Everything()}
	return into(list, form{}.list(place, s.version, "", all.of(place.objects)))
}

// Uninstall ends the kind of an object, as the deletion of its resource definition does:
// its objects are deleted, its watches end, and requests find nothing.
func (s *Server) Uninstall(object streams.Object) error {
	return s.do("uninstall", object, func(place *served) error {
		s.uninstall(place)
		return nil
	})
}

// Install brings the kind of an object back, without objects.
func (s *Server) Install(object streams.Object) error {
	return s.at("install", object, func(place *served) error {
		place.gone = false
		return nil
	})
}

// at does something in the place of an object's kind, under the lock.
func (s *Server) at(verb string, object streams.Object, do func(*served) error) error {
	failed := func(err error) error { return fmt.Errorf("cannot %s %T %s: %w", verb, object, keyOf(object), err) }
	kinds, _, err := s.options.Scheme.ObjectKinds(object)
	if err != nil {
		return failed(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	place := s.places[kinds[0]]
	if place == nil {
		return failed(fmt.Errorf("the fake API server does not serve %v; add it to the scheme or to Kinds", kinds[0]))
	}
	if err := do(place); err != nil {
		return failed(err)
	}
	return nil
}

// do is at for kinds that are installed.
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

// into reads what is stored into an object or a list.
func into(target runtime.Object, content map[string]any) error {
	reflect.ValueOf(target).Elem().SetZero() // What is stored may have no such field.
	return json.Unmarshal(encoded(content), target)
}
