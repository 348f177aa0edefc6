package history

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/streams"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// describe returns the word for a change in an answer.
func describe(of streams.ChangeType) string { return strings.ToLower(of.String()) }

// fieldsOf returns the paths that an update changed. The resource version changes with each update, and the managed
// fields with most, so they are left out.
func fieldsOf(of *streams.Change) []string {
	if of.Old == nil || of.New == nil {
		return nil
	}
	paths, err := Fields(of.Old, of.New)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		path = strings.TrimPrefix(path, "metadata.")
		return path == "resourceVersion" || path == "managedFields"
	})
}

// managersOf returns the field managers that an update names anew, or with another time or other fields. A manager that has
// only lost fields to another one is left out.
func managersOf(of *streams.Change) (managers []Manager) {
	if of.New == nil {
		return nil
	}
	var before, changed, lost []metav1.ManagedFieldsEntry
	if of.Old != nil {
		before = of.Old.GetManagedFields()
	}
	for _, entry := range of.New.GetManagedFields() {
		switch {
		case slices.ContainsFunc(before, func(old metav1.ManagedFieldsEntry) bool { return reflect.DeepEqual(old, entry) }):
		case slices.ContainsFunc(before, func(old metav1.ManagedFieldsEntry) bool { return onlyLost(old, entry) }):
			lost = append(lost, entry)
		default:
			changed = append(changed, entry)
		}
	}
	if len(changed) == 0 { // A manager has removed fields, in the second of its write before.
		changed = lost
	}
	for _, entry := range changed {
		made := Manager{Name: entry.Manager, Operation: string(entry.Operation)}
		if entry.Time != nil {
			made.Time = entry.Time.UTC()
		}
		managers = append(managers, made)
	}
	return managers
}

// onlyLost reports whether an entry of a manager has fewer fields than before, and is of the same write. The API server takes
// fields away from a manager when another one sets them.
func onlyLost(old, entry metav1.ManagedFieldsEntry) bool {
	if old.FieldsV1 == nil || entry.FieldsV1 == nil || !old.Time.Equal(entry.Time) ||
		old.Manager != entry.Manager || old.Operation != entry.Operation || old.Subresource != entry.Subresource || old.APIVersion != entry.APIVersion {
		return false
	}
	had, has := fieldpath.NewSet(), fieldpath.NewSet()
	return had.FromJSON(old.FieldsV1.GetRawReader()) == nil && has.FromJSON(entry.FieldsV1.GetRawReader()) == nil && has.Difference(had).Empty()
}

// Fields returns the paths in which the JSON of two objects differs, in order, such as spec.replicas or
// metadata.labels[app.kubernetes.io/name]. A list is one path: its items have none. It returns no values, and an
// error has none either.
func Fields(before, after any) ([]string, error) {
	patch, err := patchOf(before, after)
	if err != nil {
		return nil, errNotCompared
	}
	var changed any
	if err := json.Unmarshal(patch, &changed); err != nil {
		return nil, errNotCompared
	}
	return appendPaths(nil, "", changed), nil
}

// notCompared is the error of objects that have no JSON. The error of the encoder could quote a value.
type notCompared struct{}

func (notCompared) Error() string { return "the objects cannot be compared" }

var errNotCompared notCompared

func patchOf(before, after any) ([]byte, error) {
	old, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	now, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(old, now)
}

// appendPaths appends the paths that a merge patch sets or deletes, in order.
func appendPaths(paths []string, path string, patch any) []string {
	fields, isObject := patch.(map[string]any)
	if !isObject || len(fields) == 0 {
		if path == "" { // Nothing differs.
			return paths
		}
		return append(paths, path) // An empty object stands for one that is set to {}.
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		within := path + "." + name
		switch {
		case path == "":
			within = name
		case strings.Contains(name, "."):
			within = path + "[" + name + "]"
		}
		paths = appendPaths(paths, within, fields[name])
	}
	return paths
}
