package controller

import (
	"github.com/bellerophon-io/bellerophon/controller/internal/secrets"
	"github.com/bellerophon-io/bellerophon/sources"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// HideSecretValues returns the error of a request for an object of a kind. For a Secret, the text of the returned
// error quotes no values; the error that it wraps does. The functions of this package do that by themselves.
func HideSecretValues(of schema.GroupKind, err error) error { return secrets.HideValues(of, err) }

// clientOf returns the client of a kind. It logs no warnings about Secrets.
func (m *Manager) clientOf(kind sources.Kind) (*rest.RESTClient, error) {
	return kind.Client(secrets.DropWarnings(kind.GroupKind(), m.config), m.http)
}
