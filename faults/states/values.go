package states

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// longest bounds the length of generated strings and lists.
const (
	longestText = 70_000
	longestList = 20
)

// collection collects the values of a field, without duplicates.
type collection struct {
	values []value
	seen   map[string]bool
}

func (c *collection) add(values ...any) {
	for _, made := range values {
		made = canonical(made)
		encoded, err := json.Marshal(made)
		if err != nil || c.seen[string(encoded)] {
			continue // Such as a number that JSON does not have.
		}
		c.seen[string(encoded)] = true
		c.values = append(c.values, value{name: shortened(string(encoded)), set: made})
	}
}

// shortened returns a text for people, which names the length and a hash of a long value.
func shortened(encoded string) string {
	const longest = 48
	if len(encoded) <= longest {
		return encoded
	}
	start := encoded[:20]
	for !utf8.ValidString(start) {
		start = start[:len(start)-1]
	}
	return fmt.Sprintf("%s… (%d bytes, %08x)", start, len(encoded), hashOf(encoded))
}

// fill makes the values of a field: first probably valid ones, then edges, then misuse.
func (f *field) fill(further []any) {
	c := &collection{seen: map[string]bool{}}
	c.add(further...)
	if !f.opaque {
		c.add(valuesOf(f.schema, f.rules, 0)...)
	}
	c.values = append(c.values, value{name: "absent", absent: true})
	f.values = c.values
}

// deepest bounds the recursion into items of lists.
const deepest = 3

// valuesOf returns the values for a schema.
func valuesOf(schema *props, rules []string, depth int) (values []any) {
	if schema.Default != nil {
		if made, ok := decoded(schema.Default.Raw); ok {
			values = append(values, made)
		}
	}
	for _, raw := range schema.Enum {
		if made, ok := decoded(raw.Raw); ok {
			values = append(values, made)
		}
	}
	switch {
	case schema.XIntOrString:
		values = append(values, 0, 1, 2, "50%", "100%", "http", -1, "-1%", "", true)
	case schema.Type == "string":
		values = append(values, texts(schema, rules, values)...)
	case schema.Type == "integer", schema.Type == "number":
		values = append(values, numbers(schema, rules)...)
	case schema.Type == "boolean":
		values = append(values, true, false, "true", 1)
	case schema.Type == "array":
		values = append(values, lists(schema, depth)...)
	default:
		values = append(values, objects(schema, depth)...)
	}
	return append(values, nil)
}

// around returns a number and its neighbours.
func around(number int64) []int64 { return []int64{number, number - 1, number + 1} }

func texts(schema *props, rules []string, known []any) (values []any) {
	if schema.Pattern != "" {
		for _, made := range matching(schema.Pattern) {
			values = append(values, made)
		}
	}
	if format, has := formats[schema.Format]; has {
		values = append(values, format.valid, format.invalid)
	}
	values = append(values, textFor(schema))
	mined := mine(rules)
	for _, text := range mined.texts {
		values = append(values, text)
	}
	for _, pattern := range mined.patterns {
		for _, made := range matching(pattern) {
			values = append(values, made)
		}
	}
	for _, like := range known[:min(1, len(known))] { // The default, slightly changed.
		if text, ok := like.(string); ok && text != "" {
			values = append(values, text+"2", strings.ToUpper(text))
		}
	}
	lengths := mined.numbers
	for _, bound := range []*int64{schema.MinLength, schema.MaxLength} {
		if bound != nil {
			lengths = append(lengths, *bound)
		}
	}
	for _, bound := range lengths {
		for _, length := range around(bound) {
			if length >= 0 && length <= longestText {
				values = append(values, strings.Repeat("x", int(length)))
			}
		}
	}
	if len(schema.Enum) == 0 && schema.Format == "" {
		values = append(values, "x", "two words", "line\nbreak", "ünïcödé 日本", "null", "true", "1", "-", "a/b", `{"a": 'b'}`, "${HOME}", "{{ .x }}")
	}
	// No white space is the same everywhere: one check takes for a space what another one does not.
	return append(values, "", " leading", "trailing ", "\u00a0space", "\vspace", "not-one-of-them", "\x00", 1, true, []any{}, map[string]any{})
}

func numbers(schema *props, rules []string) (values []any) {
	bounds := mine(rules).numbers
	for _, bound := range []*float64{schema.Minimum, schema.Maximum} {
		if bound != nil {
			bounds = append(bounds, int64(*bound))
		}
	}
	if schema.MultipleOf != nil {
		bounds = append(bounds, int64(*schema.MultipleOf))
	}
	bounds = append(bounds, 1)
	for _, bound := range bounds {
		for _, number := range around(bound) {
			values = append(values, number)
		}
	}
	values = append(values, int64(-1), int64(math.MaxInt32), int64(math.MinInt32), int64(math.MaxInt32)+1, int64(math.MaxInt64), 1e30)
	return append(values, 1.5, "1", "", true, []any{})
}

func lists(schema *props, depth int) (values []any) {
	if schema.Items == nil || schema.Items.Schema == nil || depth >= deepest {
		return []any{[]any{}}
	}
	inner := schema.Items.Schema
	one := minimal(inner)
	values = append(values, []any{one}, []any{})
	for _, bound := range []*int64{schema.MinItems, schema.MaxItems} {
		if bound == nil {
			continue
		}
		for _, length := range around(*bound) {
			if length >= 0 && length <= longestList {
				values = append(values, slices.Repeat([]any{one}, int(length)))
			}
		}
	}
	for _, item := range valuesOf(inner, nil, depth+1) {
		values = append(values, []any{item})
		if item != nil {
			values = append(values, []any{one, item}, []any{item, one})
		}
	}
	return append(values, []any{one, one}, "not a list")
}

func objects(schema *props, depth int) (values []any) {
	values = append(values, minimal(schema), map[string]any{})
	if depth >= deepest {
		return values
	}
	for _, field := range fieldsOfItem(schema) {
		for _, made := range valuesOf(field.schema, field.rules, depth+1) {
			object, ok := minimal(schema).(map[string]any)
			if !ok {
				continue
			}
			set(object, schema, field.path, value{set: canonical(made)})
			values = append(values, object)
		}
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		inner := schema.AdditionalProperties.Schema
		one := minimal(inner)
		values = append(values, map[string]any{"a": one}, map[string]any{"a": one, "b": one}, map[string]any{"b": one}, map[string]any{"two words": one}, map[string]any{"": one})
		for _, made := range valuesOf(inner, nil, depth+1) {
			values = append(values, map[string]any{"a": made})
		}
	}
	if schema.XPreserveUnknownFields != nil {
		values = append(values, map[string]any{"any": "thing"})
	}
	return append(values, "not an object")
}

// fieldsOfItem returns the fields of an object that is an item of a list.
func fieldsOfItem(schema *props) (fields []*field) {
	for name := range schema.Properties {
		below := schema.Properties[name]
		fields = append(fields, fieldsBelow([]string{name}, &below, rulesFor(name, schema, nil), nil)...)
	}
	slices.SortFunc(fields, func(a, b *field) int { return strings.Compare(a.String(), b.String()) })
	return fields
}
