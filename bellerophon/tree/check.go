package tree

import (
	"errors"

	"github.com/bellerophon-io/bellerophon/controller/introspection"
)

// Check returns an error if an answer is no object.
func Check(root introspection.Node) error {
	if root.Name == "" || root.Kind == "" {
		return errors.New("the answer has no object; is it the metrics server of an operator?")
	}
	return nil
}
