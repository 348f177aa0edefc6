// Package v1beta7 has the second version of the kind Bellerophon, so that old manifests apply as they are.
//
// +kubebuilder:object:generate=true
// +groupName=stable.bellerophon.io
package v1beta7
