// Package v1 is the stored version of the group stable.simple-bellerophon.io with its
// one kind, [BellerophonSimple]. The fields of the kind are declared here only:
// version v444beta989 serves the same ones, and a test keeps the two schemas equal.
//
// Every limit of the specification is a rule with a message that says what is allowed,
// and every field has a default, so that a manifest without a specification is valid.
//
// +groupName=stable.simple-bellerophon.io
// +kubebuilder:object:generate=true
package v1
