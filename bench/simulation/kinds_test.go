package simulation

import (
	"fmt"
	"strings"

	"github.com/bellerophon-io/bellerophon/streams"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Both kinds are custom resources, because every API server sends those as JSON.
var version = schema.GroupVersion{Group: "simulation.bellerophon.io", Version: "v1"}

// namespace holds the objects and the Leases.
const namespace = "simulation"

// spec is what both kinds have.
type spec struct {
	Text  string `json:"text"`
	Round int    `json:"round"` // the number of the last change
}

// ship is the kind that replicas reconcile.
type ship struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              spec `json:"spec"`
}

// sail is a child. Each ship has one, of the same name.
type sail ship

type shipList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ship `json:"items"`
}

type sailList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []sail `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (s *ship) DeepCopyObject() runtime.Object {
	return &ship{s.TypeMeta, *s.ObjectMeta.DeepCopy(), s.Spec}
}

// DeepCopyObject implements runtime.Object.
func (s *sail) DeepCopyObject() runtime.Object {
	return &sail{s.TypeMeta, *s.ObjectMeta.DeepCopy(), s.Spec}
}

// DeepCopyObject implements runtime.Object.
func (l *shipList) DeepCopyObject() runtime.Object {
	made := &shipList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		made.Items = append(made.Items, *l.Items[i].DeepCopyObject().(*ship))
	}
	return made
}

// DeepCopyObject implements runtime.Object.
func (l *sailList) DeepCopyObject() runtime.Object {
	made := &sailList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		made.Items = append(made.Items, *l.Items[i].DeepCopyObject().(*sail))
	}
	return made
}

// newScheme returns a scheme with both kinds and Leases.
func newScheme() (*runtime.Scheme, error) {
	made := runtime.NewScheme()
	for name, object := range map[string]runtime.Object{"Ship": &ship{}, "ShipList": &shipList{}, "Sail": &sail{}, "SailList": &sailList{}} {
		made.AddKnownTypeWithName(version.WithKind(name), object)
	}
	metav1.AddToGroupVersion(made, version)
	if err := coordinationv1.AddToScheme(made); err != nil {
		return nil, fmt.Errorf("making the scheme: %w", err)
	}
	return made, nil
}

// nameOf returns the name of the ship with a number, and of its sail.
func nameOf(number int) string { return fmt.Sprintf("ship-%07d", number) }

// text makes an object about as large as a small one of Kubernetes.
var text = strings.Repeat("Proteus sent him to Lycia. ", 8)

func newShip(number int) *ship {
	return &ship{
		TypeMeta:   metav1.TypeMeta{APIVersion: version.String(), Kind: "Ship"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nameOf(number), Labels: map[string]string{"app.kubernetes.io/managed-by": "simulation"}},
		Spec:       spec{Text: text},
	}
}

func newSail(of *ship) *sail {
	owner := *metav1.NewControllerRef(of, version.WithKind("Ship"))
	made := &sail{TypeMeta: metav1.TypeMeta{APIVersion: version.String(), Kind: "Sail"}, ObjectMeta: *newShip(0).ObjectMeta.DeepCopy(), Spec: spec{Text: text}}
	made.Name, made.OwnerReferences = of.Name, []metav1.OwnerReference{owner}
	return made
}

// definitions returns the resource definitions of both kinds, for a real API server.
func definitions() (made []*apiextensionsv1.CustomResourceDefinition) {
	for _, of := range []streams.Object{&ship{}, &sail{}} {
		singular := "ship"
		if _, is := of.(*sail); is {
			singular = "sail"
		}
		open := true
		made = append(made, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + version.Group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: version.Group, Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: singular + "s", Singular: singular, Kind: strings.ToUpper(singular[:1]) + singular[1:]},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: version.Version, Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", XPreserveUnknownFields: &open}},
					}},
				}},
			},
		})
	}
	return made
}
