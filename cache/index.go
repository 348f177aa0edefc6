package cache

import "github.com/bellerophon-io/bellerophon/streams"

// Indexer finds objects by a value that each has, or by several. Values must depend on
// nothing but the object, be fast, and be safe for use by many goroutines.
type Indexer struct {
	Name   string
	Values func(object streams.Object) []string
}

// OwnerIndex is the name of the index of [ByOwner].
const OwnerIndex = "owner"

// ByOwner indexes objects by the uid of each of their owners.
var ByOwner = Indexer{Name: OwnerIndex, Values: func(object streams.Object) []string {
	owners := object.GetOwnerReferences()
	if len(owners) == 0 {
		return nil
	}
	uids := make([]string, len(owners))
	for i, owner := range owners {
		uids[i] = string(owner.UID)
	}
	return uids
}}

// LabelIndexer indexes objects by the value of a label, under the label's name.
func LabelIndexer(label string) Indexer {
	return Indexer{Name: label, Values: func(object streams.Object) []string {
		if value, labelled := object.GetLabels()[label]; labelled {
			return []string{value}
		}
		return nil
	}}
}
