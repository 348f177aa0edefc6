// Package v1 is the stored version of the group stable.simple-bellerophon.io with its only kind,
// [BellerophonSimple]. The fields of the kind are declared only here. Version v444beta989 serves the
// same fields, and a test keeps the two schemas equal.
//
// Every limit of the specification is a rule with a message that says what is allowed. Every field
// has a default, so a manifest without a specification is valid.
//
// +groupName=stable.simple-bellerophon.io
// +kubebuilder:object:generate=true
package v1
