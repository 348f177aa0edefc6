package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is a kind that the API server serves.
type kind struct {
	schema.GroupVersionKind
	resource   string
	namespaced bool
}

// kinds finds kinds by the names that kubectl takes.
type kinds struct {
	discover func(ctx context.Context) ([]*metav1.APIResourceList, error)

	mu    sync.Mutex
	lists []*metav1.APIResourceList // of the last discovery
}

var errUnknownKind = errors.New("the API server serves no such kind")

// find returns the kind with a name, which is a kind, a plural, a singular or a short name in any case. An empty
// apiVersion stands for the first group that has the name, in its preferred version. A kind that is not known
// may have been installed since, so find discovers again.
func (k *kinds) find(ctx context.Context, apiVersion, name string) (kind, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, fresh := range []bool{false, true} {
		if fresh {
			lists, err := k.discover(ctx)
			if len(lists) == 0 && err != nil {
				return kind{}, fmt.Errorf("asking which kinds there are: %w", err)
			}
			k.lists = lists
		}
		if found, ok := k.among(apiVersion, name); ok {
			return found, nil
		}
	}
	if apiVersion != "" {
		return kind{}, fmt.Errorf("kind %q of apiVersion %q: %w", name, apiVersion, errUnknownKind)
	}
	return kind{}, fmt.Errorf("kind %q: %w", name, errUnknownKind)
}

// among looks in the lists of the last discovery. The lists are in the order of preference.
func (k *kinds) among(apiVersion, name string) (kind, bool) {
	for _, list := range k.lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || apiVersion != "" && apiVersion != list.GroupVersion {
			continue
		}
		for _, resource := range list.APIResources {
			if strings.Contains(resource.Name, "/") || !isNamed(resource, name) {
				continue
			}
			return kind{version.WithKind(resource.Kind), resource.Name, resource.Namespaced}, true
		}
	}
	return kind{}, false
}

func isNamed(resource metav1.APIResource, name string) bool {
	for _, known := range append([]string{resource.Kind, resource.Name, resource.SingularName}, resource.ShortNames...) {
		if strings.EqualFold(known, name) {
			return true
		}
	}
	return false
}
