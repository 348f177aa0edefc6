package states

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type props = apiextensionsv1.JSONSchemaProps

// field is a field of the explored object, with the values that are tried.
type field struct {
	path   []string
	schema *props
	rules  []string // CEL rules that may concern the field
	opaque bool     // its schema is not explored
	values []value
}

// String returns the path of the field, such as spec.image.
func (f *field) String() string { return strings.Join(f.path, ".") }

// value is a value of a field.
type value struct {
	name   string // for people; different for each value of a field
	set    any    // as decoded from JSON
	absent bool   // the field is left out
}

// change sets a field to a value.
type change struct {
	field *field
	value value
}

// state is a spec: the base with some changes.
type state struct{ changes []change }

// String returns the changes, which identify the state.
func (s state) String() string {
	if len(s.changes) == 0 {
		return "base"
	}
	var parts []string
	for _, c := range s.changes {
		parts = append(parts, c.field.String()+"="+c.value.name)
	}
	return strings.Join(parts, ", ")
}

// fieldsOf returns the fields of a kind that a user sets, in the order of their paths. The opaque ones have no fields of
// their own.
func fieldsOf(root *props, opaque ...string) []*field {
	var fields []*field
	for _, name := range slices.Sorted(maps.Keys(root.Properties)) {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
			continue
		}
		schema := root.Properties[name]
		fields = append(fields, fieldsBelow([]string{name}, &schema, rulesFor(name, root, nil), opaque)...)
	}
	return fields
}

// fieldsBelow returns the fields of an object without its own, or the field itself.
func fieldsBelow(path []string, schema *props, rules, opaque []string) []*field {
	own := slices.Clone(rules)
	for _, rule := range schema.XValidations {
		own = append(own, rule.Rule)
	}
	made := &field{path: path, schema: schema, rules: own}
	if made.opaque = slices.Contains(opaque, made.String()); made.opaque || len(schema.Properties) == 0 {
		return []*field{made}
	}
	var fields []*field
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		below := schema.Properties[name]
		fields = append(fields, fieldsBelow(append(slices.Clone(path), name), &below, rulesFor(name, schema, rules), opaque)...)
	}
	return fields
}

// rulesFor returns the rules of an object, and those inherited, that mention a property of the object.
func rulesFor(name string, of *props, inherited []string) (rules []string) {
	for _, rule := range of.XValidations {
		inherited = append(slices.Clone(inherited), rule.Rule)
	}
	for _, rule := range inherited {
		if strings.Contains(rule, "."+name) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// contentOf returns the content of an object in a state.
func (s state) contentOf(root *props, base map[string]any) map[string]any {
	content := runtime.DeepCopyJSON(base)
	for _, c := range s.changes {
		set(content, root, c.field.path, c.value)
	}
	return content
}

// set sets or removes a field. A parent that is missing gets its required fields too.
func set(content map[string]any, schema *props, path []string, to value) {
	name := path[0]
	below := schema.Properties[name]
	if len(path) == 1 {
		if to.absent {
			delete(content, name)
		} else {
			content[name] = runtime.DeepCopyJSONValue(to.set)
		}
		return
	}
	inner, ok := content[name].(map[string]any)
	if !ok {
		if to.absent {
			return
		}
		if inner, _ = minimal(&below).(map[string]any); inner == nil {
			inner = map[string]any{}
		}
		content[name] = inner
	}
	set(inner, &below, path[1:], to)
}

// baseOf returns the content of the base, completed with required fields.
func baseOf(root *props, given map[string]any) map[string]any {
	base := runtime.DeepCopyJSON(given)
	if base == nil {
		base = map[string]any{}
	}
	for name := range root.Properties {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
			continue
		}
		schema := root.Properties[name]
		if slices.Contains(root.Required, name) || base[name] != nil || schema.Type == "object" {
			base[name] = completed(&schema, base[name])
		}
	}
	return base
}

// completed adds the required fields that an object lacks.
func completed(schema *props, held any) any {
	if held == nil {
		return minimal(schema)
	}
	inner, ok := held.(map[string]any)
	if !ok {
		return held
	}
	for _, name := range schema.Required {
		below := schema.Properties[name]
		inner[name] = completed(&below, inner[name])
	}
	return inner
}

// minimal returns a small value that the schema probably allows.
func minimal(schema *props) any {
	if schema.Default != nil {
		if made, ok := decoded(schema.Default.Raw); ok {
			return made
		}
	}
	if len(schema.Enum) > 0 {
		if made, ok := decoded(schema.Enum[0].Raw); ok {
			return made
		}
	}
	switch schema.Type {
	case "object":
		made := map[string]any{}
		for _, name := range schema.Required {
			below := schema.Properties[name]
			made[name] = minimal(&below)
		}
		return made
	case "array":
		made := []any{}
		if schema.MinItems != nil && schema.Items != nil && schema.Items.Schema != nil {
			for range min(*schema.MinItems, longestList) {
				made = append(made, minimal(schema.Items.Schema))
			}
		}
		return made
	case "boolean":
		return false
	case "integer", "number":
		number := 1.0
		if schema.Minimum != nil {
			number = max(number, *schema.Minimum)
		}
		if schema.Maximum != nil {
			number = min(number, *schema.Maximum)
		}
		if schema.Type == "integer" {
			return int64(number)
		}
		return number
	}
	if schema.XIntOrString {
		return int64(1)
	}
	return textFor(schema)
}

// textFor returns a string that the schema probably allows.
func textFor(schema *props) string {
	if made := formats[schema.Format].valid; made != "" {
		return made
	}
	if schema.Pattern != "" {
		for _, made := range matching(schema.Pattern) {
			return made
		}
	}
	length := int64(1)
	if schema.MinLength != nil {
		length = min(max(length, *schema.MinLength), longestText)
	}
	return strings.Repeat("x", int(length))
}

// decoded decodes JSON, with whole numbers as int64.
func decoded(raw []byte) (any, bool) {
	var made any
	if err := json.Unmarshal(raw, &made); err != nil {
		return nil, false
	}
	return canonical(made), true
}

// canonical returns a value as the API machinery decodes it: whole numbers are int64.
func canonical(held any) any {
	switch held := held.(type) {
	case float64:
		if held == float64(int64(held)) {
			return int64(held)
		}
	case int:
		return int64(held)
	case int32:
		return int64(held)
	case map[string]any:
		made := map[string]any{}
		for name, inner := range held {
			made[name] = canonical(inner)
		}
		return made
	case []any:
		made := []any{}
		for _, inner := range held {
			made = append(made, canonical(inner))
		}
		return made
	}
	return held
}
