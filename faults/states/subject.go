package states

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Subject is the kind whose spec is explored, and the operator's part in it.
type Subject struct {
	// Config reaches the cluster as an administrator. Explore creates namespaces.
	Config *rest.Config
	// Definition is the definition of the kind, which must be namespaced. See [Definition].
	Definition *apiextensionsv1.CustomResourceDefinition
	// Version is the version that is explored. The default is the stored version.
	Version string
	// Children are the resources whose objects are compared. It needs the resources that the operator
	// creates. Others that follow from them, such as pods, may be added.
	Children []schema.GroupVersionResource
	// Base is the content of the object from which each field is varied, such as
	// {"spec": {"replicas": 2}}. Required fields that it lacks get a valid value.
	Base map[string]any
	// Values are further values by the path of a field, such as "spec.image". They are for values that a
	// schema cannot express, such as an image that does not exist.
	Values map[string][]any
	// Opaque lists paths of fields, such as "spec.affinity". Their schema is not read: only their Values are
	// tried. It is for types of Kubernetes itself, which have more values than can be tried.
	Opaque []string
	// Ignore lists fields that are not compared, by kind and path, such as "Pod.status". It is for what
	// neither the operator nor its children decide.
	Ignore []string
	// IsHeavy reports whether a value is too expensive to run, such as a thousand replicas. Only the API
	// server's answer to it is checked. The default is that no value is.
	IsHeavy func(field string, value any) bool
	// Judge reads the operator's answer from an object. The default is [Conditions].
	Judge func(object *unstructured.Unstructured) (Verdict, string)
}

// Options say how much of the state space is explored. The zero value explores all of it.
type Options struct {
	// Walks is the number of walks. 0 means all of the plan. The plan always has the same order: a prefix
	// of it visits each value first.
	Walks int
	// Workers is the number of objects that exist at the same time, from 1 to 200. The default is 12.
	Workers int
	// Journal is the path of a file that lists finished walks. An exploration with the same journal goes on
	// where the last one ended. Without it, each exploration starts anew.
	Journal string
	// Slice is the time after which no further walk starts. 0 means no limit. It needs Journal.
	Slice time.Duration
	// FailFast starts no further walk after the first problem. It is for checks of the oracles with seeded
	// bugs.
	FailFast bool
	// Select reports whether a walk of the plan is made, by its text in problems and in the log. It is for
	// repeating a walk. The default is that all are.
	Select func(walk string) bool
	// Patience bounds each wait for the operator. A busy machine gets more time: six times as long as the
	// slowest of the last waits that ended well. The default is 30 seconds.
	Patience time.Duration
	// Quiet is how long an object must stay unchanged to count as settled. It must be longer than the
	// pauses of the operator and less than Patience. The default is 1.5 seconds.
	Quiet time.Duration
	// Window is how long the API server's writes are counted after everything has settled. The default is
	// 5 seconds.
	Window time.Duration
	// Log receives a line for each finished walk. The default is no log.
	Log func(line string)
}

// ErrConfiguration means that a Subject or its Options cannot be used.
var ErrConfiguration = errors.New("states: invalid configuration")

func invalid(format string, details ...any) error {
	return fmt.Errorf("%w: %s", ErrConfiguration, fmt.Sprintf(format, details...))
}

// check validates the subject, and sets its defaults.
func (s *Subject) check() error {
	switch {
	case s.Config == nil:
		return invalid("Subject.Config is nil; give the configuration of an administrator")
	case s.Definition == nil:
		return invalid("Subject.Definition is nil; give the CustomResourceDefinition")
	case s.Definition.Spec.Scope != apiextensionsv1.NamespaceScoped:
		return invalid("Subject.Definition: %s is not namespaced", s.Definition.Name)
	case len(s.Children) == 0:
		return invalid("Subject.Children is empty; give the resources that the operator creates")
	}
	for _, child := range s.Children {
		if child.Version == "" || child.Resource == "" {
			return invalid("Subject.Children: %q has no version or no resource", child)
		}
	}
	if s.Judge == nil {
		s.Judge = Conditions
	}
	if s.IsHeavy == nil {
		s.IsHeavy = func(string, any) bool { return false }
	}
	return nil
}

// check validates the options, and sets their defaults.
func (o *Options) check() error {
	o.Workers = orDefault(o.Workers, 12)
	o.Patience = orDefault(o.Patience, 30*time.Second)
	o.Quiet = orDefault(o.Quiet, 1500*time.Millisecond)
	o.Window = orDefault(o.Window, 5*time.Second)
	if o.Select == nil {
		o.Select = func(string) bool { return true }
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	switch {
	case o.Walks < 0:
		return invalid("Options.Walks is %d; give 0 for all, or more", o.Walks)
	case o.Workers < 1 || o.Workers > 200:
		return invalid("Options.Workers is %d; give 1 to 200", o.Workers)
	case o.Quiet < 0 || o.Quiet >= o.Patience:
		return invalid("Options.Quiet is %v; give more than 0 and less than Options.Patience, which is %v", o.Quiet, o.Patience)
	case o.Window < 0:
		return invalid("Options.Window is %v; give more than 0", o.Window)
	case o.Slice < 0 || (o.Slice > 0 && o.Journal == ""):
		return invalid("Options.Slice is %v; give 0 or more, and a Journal with it", o.Slice)
	}
	return nil
}

func orDefault[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}

// Definition reads a CustomResourceDefinition from a cluster.
func Definition(ctx context.Context, config *rest.Config, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("states: create a client for %s: %w", config.Host, err)
	}
	object, err := client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("states: get CustomResourceDefinition %s: %w", name, err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition); err != nil {
		return nil, fmt.Errorf("states: read CustomResourceDefinition %s: %w", name, err)
	}
	return definition, nil
}

// version returns the explored version of the definition, and the resource and kind of its objects.
func (s *Subject) version() (*apiextensionsv1.JSONSchemaProps, schema.GroupVersionResource, schema.GroupVersionKind, error) {
	spec := s.Definition.Spec
	for _, version := range spec.Versions {
		if (s.Version == "" && version.Storage) || (s.Version != "" && version.Name == s.Version) {
			if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
				break
			}
			group := schema.GroupVersion{Group: spec.Group, Version: version.Name}
			return version.Schema.OpenAPIV3Schema, group.WithResource(spec.Names.Plural), group.WithKind(spec.Names.Kind), nil
		}
	}
	return nil, schema.GroupVersionResource{}, schema.GroupVersionKind{}, invalid("Subject.Version: %s has no version %q with a schema", s.Definition.Name, s.Version)
}
