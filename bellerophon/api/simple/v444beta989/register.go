package v444beta989

import (
	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package.
var GroupVersion = schema.GroupVersion{Group: v1.GroupVersion.Group, Version: "v444beta989"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds the types of this package to a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &BellerophonSimple{}, &BellerophonSimpleList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
