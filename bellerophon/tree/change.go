package tree

import (
	"errors"
	"reflect"

	"github.com/bellerophon-io/bellerophon/controller/introspection"
)

// Check returns an error if an answer is no object.
func Check(root introspection.Node) error {
	if root.Name == "" || root.Kind == "" {
		return errors.New("the answer has no object; is it the metrics server of an operator?")
	}
	return nil
}

// LooksEqual reports whether two trees have the same lines, apart from ages. Versions of objects are in no line.
func LooksEqual(one, other introspection.Node) bool {
	return reflect.DeepEqual(withoutVersions(one), withoutVersions(other))
}

func withoutVersions(of introspection.Node) introspection.Node {
	of.ResourceVersion = ""
	children := make([]introspection.Node, len(of.Children))
	for i := range of.Children {
		children[i] = withoutVersions(of.Children[i])
	}
	of.Children = children
	return of
}
