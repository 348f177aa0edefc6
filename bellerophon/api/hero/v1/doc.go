// Package v1 has the stored version of the kind Bellerophon: a cluster of the Bellerophon software.
//
// +kubebuilder:object:generate=true
// +groupName=stable.bellerophon.io
package v1
