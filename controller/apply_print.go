package controller

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/bellerophon-io/bellerophon/streams"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// printOf returns a fingerprint of the parts of an object that an apply of a configuration may concern.
// Parts are taken whole: only the API server knows whether a list or a map is atomic, and a field such as
// stringData changes another one. So a change of another client in a part leads to one more apply. The
// status, and labels and annotations that the configuration does not set, are left out.
func printOf(made application, object streams.Object) ([sha256.Size]byte, error) {
	content, err := contentOf(object)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	delete(content, "apiVersion") // A typed object of the cache has none.
	delete(content, "kind")
	if made.subresource != "status" {
		delete(content, "status")
	}
	set, _ := made.content["metadata"].(map[string]any)
	has, _ := content["metadata"].(map[string]any)
	metadata := map[string]any{}
	for name := range set {
		switch name {
		case "resourceVersion": // It is a condition, not a value.
		case "labels", "annotations":
			metadata[name] = restricted(set[name], has[name])
		default:
			metadata[name] = has[name]
		}
	}
	content["metadata"] = metadata
	encoded, err := json.Marshal(content) // The keys of maps are sorted.
	return sha256.Sum256(encoded), err
}

// contentOf returns the JSON form of an object.
func contentOf(object streams.Object) (content map[string]any, err error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return content, utiljson.Unmarshal(encoded, &content)
}

// restricted returns the entries of a map that a configuration sets.
func restricted(set, value any) map[string]any {
	wanted, _ := set.(map[string]any)
	has, _ := value.(map[string]any)
	kept := map[string]any{}
	for name := range wanted {
		if value, known := has[name]; known {
			kept[name] = value
		}
	}
	return kept
}
