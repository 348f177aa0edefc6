package v444beta989

import (
	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BellerophonSimple runs a number of equal servers that carry the name of a winged horse. Its
// StatefulSet, Service and ConfigMap have its name, which limits the name. The Service needs a DNS
// label. Each pod has a label with the name and a hash of 11 characters, and a label has at most 63
// characters.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=sheroes,singular=shero,shortName=bsh,categories=bellerophon
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.status.observedGeneration`
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Horse",type=string,JSONPath=`.spec.winged_horse_name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
//
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52",message="metadata.name must have at most 52 characters, because the labels of the pods carry it together with a hash"
//
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must consist of a-z, 0-9 and '-', start with a letter and end with a letter or digit, because the Service carries it"
type BellerophonSimple struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// The desired state. Every field has a default.
	// +optional
	// +kubebuilder:default={}
	Spec v1.BellerophonSimpleSpec `json:"spec,omitzero"`

	// The state that the operator observed. Only the operator writes it. Until it first does, no server
	// counts, and the condition Ready is Unknown with the reason Pending.
	// +optional
	// +kubebuilder:default={replicas: 0, readyReplicas: 0, conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the operator", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status v1.BellerophonSimpleStatus `json:"status,omitzero"`
}

// BellerophonSimpleList is the result of a list request.
//
// +kubebuilder:object:root=true
type BellerophonSimpleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// The objects of the list.
	Items []BellerophonSimple `json:"items"`
}
