// Package v444beta989 is the first version of the group stable.simple-bellerophon.io. It is still
// served, so manifests written for it apply unchanged. Its kind has the specification and status of
// version v1, which is the stored version. To convert, the API server only changes the name of the
// version.
//
// +groupName=stable.simple-bellerophon.io
// +kubebuilder:object:generate=true
package v444beta989
