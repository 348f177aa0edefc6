package sourcestest

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// discovered returns the answer to a request for the groups that are served, for one of them, or for the resources of a
// version. It returns nil for the path of another request. Faults do not apply to such a request, and it is not counted.
func (s *Server) discovered(path string) (answer any, err error) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case path == "/version":
		return &version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.3"}, nil
	case parts[0] == "api" && len(parts) == 1:
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIVersions"}, Versions: []string{"v1"}}, nil
	case parts[0] == "apis" && len(parts) == 1:
		return s.groups(), nil
	case parts[0] == "apis" && len(parts) == 2:
		return s.group(parts[1])
	case parts[0] == "apis" && len(parts) == 3:
		return s.resources(schema.GroupVersion{Group: parts[1], Version: parts[2]})
	case parts[0] == "api" && len(parts) == 2:
		return s.resources(schema.GroupVersion{Version: parts[1]})
	}
	return nil, nil
}

func (s *Server) groups() *metav1.APIGroupList {
	made := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	names := map[string]bool{"": true} // The core group is not in the list.
	for place := range s.kinds {
		if names[place.Group] {
			continue
		}
		names[place.Group] = true
		if group, err := s.group(place.Group); err == nil { // Otherwise all its kinds are gone.
			made.Groups = append(made.Groups, *group)
		}
	}
	slices.SortFunc(made.Groups, func(a, b metav1.APIGroup) int { return cmp.Compare(a.Name, b.Name) })
	return made
}

func (s *Server) group(name string) (*metav1.APIGroup, error) {
	made := &metav1.APIGroup{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: name}
	for place, served := range s.kinds {
		version := metav1.GroupVersionForDiscovery{GroupVersion: place.GroupVersion().String(), Version: place.Version}
		if place.Group == name && !served.gone && !slices.Contains(made.Versions, version) {
			made.Versions = append(made.Versions, version)
		}
	}
	if len(made.Versions) == 0 {
		return nil, errNoPage
	}
	slices.SortFunc(made.Versions, func(a, b metav1.GroupVersionForDiscovery) int { return cmp.Compare(a.Version, b.Version) })
	made.PreferredVersion = made.Versions[0]
	return made, nil
}

func (s *Server) resources(version schema.GroupVersion) (*metav1.APIResourceList, error) {
	made := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: version.String()}
	for place, served := range s.kinds {
		if place.GroupVersion() != version || served.gone {
			continue
		}
		made.APIResources = append(made.APIResources, metav1.APIResource{
			Name: place.Resource, Kind: served.kind.Kind, Namespaced: !served.isUnscoped(),
			Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		})
	}
	if len(made.APIResources) == 0 {
		return nil, errNoPage
	}
	slices.SortFunc(made.APIResources, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
	return made, nil
}

// isUnscoped reports whether the kind counts as one without namespaces.
func (s *served) isUnscoped() bool {
	for key := range s.objects {
		return key.Namespace == ""
	}
	return s.unscoped
}
