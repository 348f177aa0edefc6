package webhook

import (
	"encoding/base64"
	"fmt"
	"reflect"

	"github.com/bellerophon-io/bellerophon/controller/internal/managedfields"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// configuration is an object that makes API servers call the server.
type configuration struct {
	kind schema.GroupVersionKind
	name string // empty for a resource definition until the API server has named its plural
	// hooks are the webhooks of an admission configuration. Without them, the webhooks that an earlier
	// version of the program had are removed from it: API servers would call them in vain.
	hooks []*hook
	// conversion is set for a resource definition, which must exist.
	conversion *conversion
	lacks      error // why the name is empty
}

// configurations returns the configurations of the server's functions.
func (s *Server) configurations() (made []configuration) {
	byKind := map[schema.GroupVersionKind][]*hook{}
	for _, hook := range s.hooks {
		kind := validations
		if hook.mutating {
			kind = defaults
		}
		byKind[kind] = append(byKind[kind], hook)
	}
	for _, kind := range []schema.GroupVersionKind{validations, defaults} {
		made = append(made, configuration{kind: kind, name: s.options.Name, hooks: byKind[kind]})
	}
	for _, conversion := range s.conversions {
		made = append(made, configuration{kind: definitions, conversion: conversion})
	}
	for definition, conversion := range s.reviewed {
		made = append(made, configuration{kind: definitions, name: definition, conversion: conversion})
	}
	return made
}

// isEmpty reports whether there is nothing to call.
func (c configuration) isEmpty() bool { return c.conversion == nil && len(c.hooks) == 0 }

// check returns an error if a live resource definition cannot be converted.
func (c configuration) check(live *unstructured.Unstructured) error {
	switch {
	case c.conversion == nil:
		return nil
	case c.lacks != nil:
		return c.lacks
	case live == nil:
		return fmt.Errorf("the resource definition %s does not exist; install it", c.name)
	}
	var versions []string
	listed, _, _ := unstructured.NestedSlice(live.Object, "spec", "versions")
	for _, each := range listed {
		if version, isMap := each.(map[string]any); isMap {
			name, _ := version["name"].(string)
			versions = append(versions, name)
		}
	}
	if len(versions) == 0 {
		return nil
	}
	if err := c.conversion.covers(versions); err != nil {
		return fmt.Errorf("the resource definition %s has the versions %q, but %w", c.name, versions, err)
	}
	return nil
}

// bundles returns the bundles of authorities in a live configuration, one for each webhook that it has.
func (c configuration) bundles(live *unstructured.Unstructured) (bundles []string) {
	if live == nil {
		return nil
	}
	add := func(entry map[string]any, fields ...string) {
		encoded, _, _ := unstructured.NestedString(entry, append(fields, "caBundle")...)
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			decoded = nil
		}
		bundles = append(bundles, string(decoded))
	}
	if c.conversion != nil {
		if strategy, _, _ := unstructured.NestedString(live.Object, "spec", "conversion", "strategy"); strategy == "Webhook" {
			add(live.Object, "spec", "conversion", "webhook", "clientConfig")
		}
		return bundles
	}
	entries, _, _ := unstructured.NestedSlice(live.Object, "webhooks")
	for _, each := range entries {
		if entry, isMap := each.(map[string]any); isMap {
			add(entry, "clientConfig")
		}
	}
	return bundles
}

// fields returns the fields that the server sets.
func (s *Server) fields(c configuration, bundle []byte) (map[string]any, error) {
	if c.conversion != nil {
		return map[string]any{"spec": map[string]any{"conversion": map[string]any{
			"strategy": "Webhook",
			"webhook": map[string]any{
				"clientConfig": s.clientConfig(c.conversion.path, bundle), "conversionReviewVersions": []any{"v1"},
			},
		}}}, nil
	}
	if c.isEmpty() {
		return map[string]any{}, nil
	}
	var entries []any
	for _, hook := range c.hooks {
		entry, err := s.entry(hook, bundle)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return map[string]any{"webhooks": entries}, nil
}

// retarget returns a JSON merge patch that removes the url or the service of a live definition, if fields have the other
// one, or nil. A definition may come from a manifest. An apply keeps the fields of other managers, and a definition with
// both is invalid.
func (c configuration) retarget(live *unstructured.Unstructured, fields map[string]any) map[string]any {
	path := []string{"spec", "conversion", "webhook", "clientConfig"}
	if c.conversion == nil || live == nil {
		return nil
	}
	held, wanted := fieldsAt(live.Object, path...), fieldsAt(fields, path...)
	for one, other := range map[string]string{"url": "service", "service": "url"} {
		if wanted[one] == nil || held[other] == nil {
			continue
		}
		return map[string]any{
			"metadata": map[string]any{"resourceVersion": live.GetResourceVersion()},
			"spec": map[string]any{"conversion": map[string]any{"webhook": map[string]any{
				"clientConfig": map[string]any{one: wanted[one], other: nil},
			}}},
		}
	}
	return nil
}

// fieldsAt returns the map at a path, or nil.
func fieldsAt(object map[string]any, path ...string) map[string]any {
	found, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	fields, _ := found.(map[string]any)
	return fields
}

// entry returns a webhook of an admission configuration.
func (s *Server) entry(h *hook, bundle []byte) (map[string]any, error) {
	own := s.target.service.Namespace
	if own == "" {
		own = s.secret.Namespace
	}
	if h.given != nil {
		return s.givenEntry(h, own, bundle)
	}
	namespaces, err := mapOf(h.namespaceSelector(own))
	if err != nil {
		return nil, err
	}
	objects, err := mapOf(&h.objects)
	if err != nil {
		return nil, err
	}
	var operations, conditions []any
	for _, operation := range h.operations {
		operations = append(operations, string(operation))
	}
	for _, condition := range h.conditions {
		conditions = append(conditions, map[string]any{"name": condition.Name, "expression": condition.Expression})
	}
	entry := map[string]any{
		"name":         h.name(),
		"clientConfig": s.clientConfig(h.path(), bundle),
		"rules": []any{map[string]any{
			"apiGroups": []any{h.of.Group}, "apiVersions": []any{h.of.Version}, "resources": []any{h.resource()},
			"operations": operations, "scope": string(admissionregistrationv1.AllScopes),
		}},
		"failurePolicy":           string(h.failurePolicy),
		"matchPolicy":             string(admissionregistrationv1.Equivalent), // So requests for other versions are converted.
		"sideEffects":             string(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		"timeoutSeconds":          int64(h.timeout.Seconds()),
		"admissionReviewVersions": []any{"v1"},
		"namespaceSelector":       namespaces,
		"objectSelector":          objects,
	}
	if conditions != nil {
		entry["matchConditions"] = conditions
	}
	if h.mutating {
		entry["reinvocationPolicy"] = string(admissionregistrationv1.IfNeededReinvocationPolicy)
	}
	return entry, nil
}

// clientConfig returns how API servers reach a path of the server.
func (s *Server) clientConfig(path string, bundle []byte) map[string]any {
	made := map[string]any{}
	if s.target.url != nil {
		made["url"] = s.target.url.JoinPath(path).String()
	} else {
		made["service"] = map[string]any{
			"namespace": s.target.service.Namespace, "name": s.target.service.Name, "port": s.target.port, "path": path,
		}
	}
	if len(bundle) > 0 {
		made["caBundle"] = base64.StdEncoding.EncodeToString(bundle)
	}
	return made
}

func mapOf(selector *metav1.LabelSelector) (map[string]any, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(selector)
}

// isApplied reports whether the server has applied exactly these fields to a live configuration, which has them still.
func isApplied(of configuration, live *unstructured.Unstructured, fields map[string]any) bool {
	entry, found := managedfields.Find(live, fieldManager, "")
	if !found {
		return of.isEmpty() // There is nothing to remove.
	}
	return entry.APIVersion == of.kind.GroupVersion().String() && managedfields.IsApplied(entry.FieldsV1.GetRawString(), fields, live.Object)
}

// covers reports whether a live value has all fields that are wanted. A list of webhooks may have more, such
// as the ones of a newer version of the program, and so may a list of owners.
func covers(live, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		live, isMap := live.(map[string]any)
		if !isMap {
			return false
		}
		for name, value := range wanted {
			given := live[name]
			switch name {
			case "webhooks":
				given = chosen(given, value, "name")
			case "ownerReferences":
				given = chosen(given, value, "uid")
			}
			if !covers(given, value) {
				return false
			}
		}
		return true
	case []any:
		live, isList := live.([]any)
		if !isList || len(live) != len(wanted) {
			return false
		}
		for i := range wanted {
			if !covers(live[i], wanted[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(live, wanted)
}

// chosen returns the entries of a list that have the same value in a field as others, in their order.
func chosen(list, others any, field string) any {
	byValue := map[any]any{}
	entries, _ := list.([]any)
	for _, each := range entries {
		if entry, isMap := each.(map[string]any); isMap {
			byValue[entry[field]] = entry
		}
	}
	var found []any
	for _, each := range others.([]any) {
		found = append(found, byValue[each.(map[string]any)[field]])
	}
	return found
}
