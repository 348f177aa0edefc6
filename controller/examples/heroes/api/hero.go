// Package api is the custom resource of the example heroes.
//
// +kubebuilder:object:generate=true
// +groupName=example.com
// +versionName=v1
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Version is the group and the version of the kinds of this package.
var Version = schema.GroupVersion{Group: "example.com", Version: "v1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(Version, &Hero{}, &HeroList{})
	metav1.AddToGroupVersion(scheme, Version)
	return nil
}

// Hero is a hero with a horse.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Horse",type=string,JSONPath=`.spec.horse`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
type Hero struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   HeroSpec   `json:"spec"`
	Status HeroStatus `json:"status,omitempty"`
}

// HeroSpec is what the user asks for.
type HeroSpec struct {
	// Name of the hero's horse.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Horse string `json:"horse"`
}

// HeroStatus is what the operator has seen.
type HeroStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HeroList is a list of heroes.
//
// +kubebuilder:object:root=true
type HeroList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Hero `json:"items"`
}
