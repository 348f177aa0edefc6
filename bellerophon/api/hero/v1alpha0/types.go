package v1alpha0

import (
	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bellerophon is a cluster of the Bellerophon software, as version v1 describes it. Fields that only v1 has are kept
// in an annotation.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=heroes,singular=hero,shortName=bh,categories=bellerophon
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Leader",type=string,JSONPath=`.status.leader`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
//
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52",message="metadata.name must have at most 52 characters, because the labels of the pods carry it together with a hash"
//
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must consist of a-z, 0-9 and '-', start with a letter and end with a letter or digit, because the Services carry it"
type Bellerophon struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// The desired state. Every field has a default.
	// +optional
	// +kubebuilder:default={}
	Spec BellerophonSpec `json:"spec,omitzero"`

	// The state that the operator observed. Only the operator writes it.
	// +optional
	Status v1.BellerophonStatus `json:"status,omitzero"`
}

// BellerophonSpec is the desired state.
type BellerophonSpec struct {
	// Name of the winged horse that the cluster carries: 1 to 253 characters.
	// +optional
	// +kubebuilder:default=pegasus
	// +kubebuilder:validation:XValidation:rule="size(self) >= 1 && size(self) <= 253",message="winged_horse_name must have 1 to 253 characters"
	WingedHorseName string `json:"winged_horse_name,omitempty"`

	// Container image of the members: 1 to 1024 characters without white space.
	// +optional
	// +kubebuilder:default="bellerophon-io/bellerophon-server:v1"
	// +kubebuilder:validation:XValidation:rule="size(self) >= 1 && size(self) <= 1024",message="image must have 1 to 1024 characters"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\s\v\x{85}\p{Z}]')`,message="image must not contain white space"
	Image string `json:"image,omitempty"`

	// Number of members: 1 to 7. Of an even number, one member does not vote.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 7",message="replicas must be between 1 and 7; more members make each write slower and nothing safer"
	Replicas *int32 `json:"replicas,omitempty"`
}

// BellerophonList is the result of a list request.
//
// +kubebuilder:object:root=true
type BellerophonList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// The objects of the list.
	Items []Bellerophon `json:"items"`
}
