// Package v1alpha0 has the first version of the kind Bellerophon, so that old manifests apply as they are.
//
// +kubebuilder:object:generate=true
// +groupName=stable.bellerophon.io
package v1alpha0
