// Package v1 is the first version of the custom resource of the example webhooks.
//
// +kubebuilder:object:generate=true
// +groupName=quests.example.com
// +versionName=v1
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Version is the group and the version of the kinds of this package.
var Version = schema.GroupVersion{Group: "quests.example.com", Version: "v1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(Version, &Quest{}, &QuestList{})
	metav1.AddToGroupVersion(scheme, Version)
	return nil
}

// Quest is a task for a hero.
//
// +kubebuilder:object:root=true
type Quest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec QuestSpec `json:"spec"`
}

// QuestSpec is what the hero has to do.
type QuestSpec struct {
	// The monster to defeat.
	//
	// +kubebuilder:validation:MinLength=1
	Monster string `json:"monster"`

	// The reward as text, such as "10 talents".
	//
	// +kubebuilder:validation:Pattern=`^[0-9]{1,9}( [a-z]+)?$`
	Reward string `json:"reward"`
}

// QuestList is a list of quests.
//
// +kubebuilder:object:root=true
type QuestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Quest `json:"items"`
}
