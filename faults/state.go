package faults

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// State holds the objects of a trial's namespace, by resource and name.
type State map[string]*unstructured.Unstructured

func keyOf(resource schema.GroupVersionResource, name string) string {
	return resource.GroupResource().String() + "/" + name
}

// Get returns an object, or nil if it does not exist.
func (s State) Get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	return s[keyOf(resource, name)]
}

// fields holds the fields of a state that two equal runs agree on, by their paths.
type fields map[string]string

var identifier = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// dropped are the fields of the metadata that say nothing about the state.
var dropped = []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "namespace", "deletionGracePeriodSeconds"}

// normal flattens a state. It replaces what is unique to a run: times, identifiers, the namespace
// and generations. An owner reference becomes "owner exists" or "owner is gone", so that an orphan
// is a difference.
func normal(state State, namespace string) fields {
	alive := map[string]bool{}
	for _, object := range state {
		alive[string(object.GetUID())] = true
	}
	found := fields{}
	generated := map[string]int{}
	keys := slices.SortedFunc(maps.Keys(state), func(a, b string) int {
		return cmp.Or(state[a].GetCreationTimestamp().Compare(state[b].GetCreationTimestamp().Time), cmp.Compare(a, b))
	})
	for _, key := range keys {
		object := state[key].DeepCopy()
		generation := object.GetGeneration()
		for i, owner := range object.GetOwnerReferences() {
			is := "owner is gone"
			if alive[string(owner.UID)] {
				is = "owner exists"
			}
			owners := object.Object["metadata"].(map[string]any)["ownerReferences"].([]any)
			owners[i].(map[string]any)["uid"] = is
		}
		metadata := object.Object["metadata"].(map[string]any)
		for _, field := range dropped {
			delete(metadata, field)
		}
		if prefix := object.GetGenerateName(); prefix != "" {
			resource, _, _ := strings.Cut(key, "/")
			generated[resource+prefix]++
			key = fmt.Sprintf("%s/%s#%d", resource, prefix, generated[resource+prefix])
			delete(metadata, "name")
		}
		f := flattener{found, namespace, generation}
		f.flatten(key, object.Object)
	}
	return found
}

type flattener struct {
	into       fields
	namespace  string
	generation int64
}

func (f flattener) flatten(path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if number, is := inner.(int64); is && name == "observedGeneration" {
				inner = "behind the generation"
				if number == f.generation {
					inner = "the generation"
				}
			}
			f.flatten(path+"."+name, inner)
		}
	case []any:
		for i, inner := range value {
			f.flatten(fmt.Sprintf("%s[%d]", path, i), inner)
		}
	case string:
		f.into[path] = f.plain(value)
	default:
		encoded, err := json.Marshal(value)
		if err != nil {
			encoded = fmt.Append(nil, value)
		}
		f.into[path] = string(encoded)
	}
}

func (f flattener) plain(text string) string {
	if _, err := time.Parse(time.RFC3339, text); err == nil {
		return "a time"
	}
	if f.namespace != "" {
		text = strings.ReplaceAll(text, f.namespace, "the namespace")
	}
	return identifier.ReplaceAllString(text, "an identifier")
}

// different returns the paths at which two states differ.
func different(a, b fields) map[string]bool {
	paths := map[string]bool{}
	for path, value := range a {
		if other, is := b[path]; !is || other != value {
			paths[path] = true
		}
	}
	for path := range b {
		if _, is := a[path]; !is {
			paths[path] = true
		}
	}
	return paths
}

// differences describes the paths at which two states differ, without the masked ones.
func differences(want, got fields, mask map[string]bool) (found []string) {
	describe := func(of fields, path string) string {
		if value, is := of[path]; is {
			return fmt.Sprintf("%q", value)
		}
		return "missing"
	}
	for _, path := range slices.Sorted(maps.Keys(different(want, got))) {
		if !mask[path] {
			found = append(found, fmt.Sprintf("%s is %s, want %s", path, describe(got, path), describe(want, path)))
		}
	}
	return found
}
