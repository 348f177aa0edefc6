package cache

import "github.com/bellerophon-io/bellerophon/streams"

// Indexer indexes objects by one value of each object, or by several.
type Indexer struct {
	Name string
	// Values appends the values of an object to values, and returns the result, as append does. It
	// must depend on nothing but the object, be fast, and be safe for use by many goroutines.
	Values func(object streams.Object, values []string) []string
}

// OwnerIndex is the name of the index of [ByOwner].
const OwnerIndex = "owner"

// ByOwner indexes objects by the uid of each of their owners.
var ByOwner = Indexer{Name: OwnerIndex, Values: func(object streams.Object, values []string) []string {
	for _, owner := range object.GetOwnerReferences() {
		values = append(values, string(owner.UID))
	}
	return values
}}

// LabelIndexer indexes objects by the value of a label, under the label's name.
func LabelIndexer(label string) Indexer {
	return Indexer{Name: label, Values: func(object streams.Object, values []string) []string {
		if value, labelled := object.GetLabels()[label]; labelled {
			values = append(values, value)
		}
		return values
	}}
}

// FieldIndexer indexes objects of a Go type by a field, or by what a function makes of several
// fields. An object is left out if its value is empty or if it has another type.
//
//	FieldIndexer("node", func(pod *corev1.Pod) string { return pod.Spec.NodeName })
func FieldIndexer[T streams.Object](name string, field func(object T) string) Indexer {
	return Indexer{Name: name, Values: func(object streams.Object, values []string) []string {
		if typed, ok := object.(T); ok {
			if value := field(typed); value != "" {
				values = append(values, value)
			}
		}
		return values
	}}
}
