// Package v444beta989 is the first version of the group stable.simple-bellerophon.io.
// It stays served, so that manifests written for it apply as they are. Its kind has the
// specification and status of version v1, which is the stored one: the API server needs
// no conversion but to change the version's name.
//
// +groupName=stable.simple-bellerophon.io
// +kubebuilder:object:generate=true
package v444beta989
