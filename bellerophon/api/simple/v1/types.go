package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BellerophonSimple runs a number of equal servers that carry the name of a winged horse. Its
// StatefulSet, Service and ConfigMap have its name, which limits the name. The Service needs a DNS
// label. Each pod has a label with the name and a hash of 11 characters, and a label has at most 63
// characters.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
	Spec BellerophonSimpleSpec `json:"spec,omitzero"`

	// The state that the operator observed. Only the operator writes it. Until it first does, no server
	// counts, and the condition Ready is Unknown with the reason Pending.
	// +optional
	// +kubebuilder:default={replicas: 0, readyReplicas: 0, conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the operator", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status BellerophonSimpleStatus `json:"status,omitzero"`
}

// BellerophonSimpleSpec is the desired state.
type BellerophonSimpleSpec struct {
	// Name of the winged horse that the servers report: 1 to 253 characters.
	// +optional
	// +kubebuilder:default=pegasus
	// +kubebuilder:validation:XValidation:rule="size(self) >= 1 && size(self) <= 253",message="winged_horse_name must have 1 to 253 characters"
	WingedHorseName string `json:"winged_horse_name,omitempty"`

	// Container image of the servers: 1 to 1024 characters without white space.
	// +optional
	// +kubebuilder:default="bellerophon-io/bellerophon-server:v1"
	// +kubebuilder:validation:XValidation:rule="size(self) >= 1 && size(self) <= 1024",message="image must have 1 to 1024 characters"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\s\v\x{85}\p{Z}]')`,message="image must not contain white space"
	Image string `json:"image,omitempty"`

	// Number of servers: 0 to 1000.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 1000",message="replicas must be between 0 and 1000"
	Replicas *int32 `json:"replicas,omitempty"`
}

// BellerophonSimpleStatus is the state that the operator observed.
type BellerophonSimpleStatus struct {
	// The metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Number of servers that exist.
	// +optional
	Replicas int32 `json:"replicas"`

	// Number of servers that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// Label selector of the servers' pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// The conditions Ready, Progressing and Degraded, each with its reason.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
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
