package states

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"pgregory.net/rapid"
)

// schemaOf reads a schema from YAML.
func schemaOf(t testing.TB, text string) *props {
	t.Helper()
	made := &props{}
	if err := yaml.Unmarshal([]byte(text), made); err != nil {
		t.Fatal(err)
	}
	return made
}

func TestEachConstraintLeadsToValuesOnBothSides(t *testing.T) {
	for name, test := range map[string]struct {
		schema string
		want   []string // the JSON of values
	}{
		"enum":          {`{type: string, enum: [red, blue]}`, []string{`"red"`, `"blue"`, `"not-one-of-them"`, `1`, `null`}},
		"length":        {`{type: string, minLength: 2, maxLength: 4}`, []string{`"x"`, `"xx"`, `"xxxx"`, `"xxxxx"`, `""`}},
		"pattern":       {`{type: string, pattern: '^v[0-9]+$'}`, []string{`"v1"`, `"v11"`, `"x"`}},
		"format":        {`{type: string, format: ipv4}`, []string{`"10.0.0.1"`, `"10.0.0.256"`}},
		"bounds":        {`{type: integer, minimum: 3, maximum: 7}`, []string{`2`, `3`, `7`, `8`, `1.5`, `"1"`}},
		"int32":         {`{type: integer, format: int32}`, []string{`2147483647`, `2147483648`, `-2147483648`}},
		"rule":          {`{type: integer, x-kubernetes-validations: [{rule: self >= 10 && self <= 20}]}`, []string{`9`, `10`, `20`, `21`}},
		"size":          {`{type: string, x-kubernetes-validations: [{rule: size(self) <= 5}]}`, []string{`"xxxxx"`, `"xxxxxx"`}},
		"text in rule":  {`{type: string, x-kubernetes-validations: [{rule: "self in ['fast', 'slow']"}]}`, []string{`"fast"`, `"slow"`}},
		"default":       {`{type: string, default: pegasus}`, []string{`"pegasus"`, `"pegasus2"`, `"PEGASUS"`}},
		"boolean":       {`{type: boolean}`, []string{`true`, `false`, `"true"`}},
		"int or string": {`{x-kubernetes-int-or-string: true}`, []string{`1`, `"50%"`, `true`}},
		"list":          {`{type: array, minItems: 1, maxItems: 2, items: {type: integer, minimum: 5}}`, []string{`[]`, `[5]`, `[5,5]`, `[5,5,5]`, `[4]`, `"not a list"`}},
		"list of objects": {`{type: array, items: {type: object, required: [port], properties: {port: {type: integer, maximum: 9}, name: {type: string}}}}`,
			[]string{`[{"port":10}]`, `[{"name":"","port":1}]`}},
		"map":     {`{type: object, additionalProperties: {type: string}}`, []string{`{}`, `{"a":"x"}`, `{"b":"x"}`, `{"a":1}`}},
		"unknown": {`{type: object, x-kubernetes-preserve-unknown-fields: true}`, []string{`{"any":"thing"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			root := &props{Properties: map[string]props{"spec": {Type: "object", Properties: map[string]props{"field": *schemaOf(t, test.schema)}}}}
			fields := fieldsOf(root)
			if len(fields) != 1 || fields[0].String() != "spec.field" {
				t.Fatalf("the fields are %v", fields)
			}
			fields[0].fill(nil)
			var made []string
			for _, value := range fields[0].values {
				encoded, err := json.Marshal(value.set)
				if err != nil {
					t.Fatal(err)
				}
				made = append(made, string(encoded))
			}
			for _, want := range test.want {
				if !slices.Contains(made, want) {
					t.Errorf("%s is not tried; the values are %s", want, strings.Join(made, " "))
				}
			}
			if !fields[0].values[len(fields[0].values)-1].absent {
				t.Error("the field is never left out")
			}
		})
	}
}

func TestTheNamesOfAFieldsValuesDiffer(t *testing.T) {
	f := &field{path: []string{"spec", "f"}, schema: schemaOf(t, `{type: string, maxLength: 300, default: x}`), rules: []string{"size(self) < 253"}}
	f.fill([]any{"x", "mine"})
	known := map[string]bool{}
	for _, v := range f.values {
		if known[v.name] {
			t.Errorf("two values have the name %s", v.name)
		}
		known[v.name] = true
	}
	if f.values[0].set != "x" || f.values[1].set != "mine" {
		t.Errorf("the caller's values are not the first ones: %v", f.values[:2])
	}
}

func TestAFieldBelowAMissingParentGetsTheParentsRequiredFields(t *testing.T) {
	root := schemaOf(t, `{properties: {spec: {type: object, properties: {store: {type: object, required: [size], properties: {size: {type: integer, minimum: 4}, class: {type: string}}}}}}}`)
	base := baseOf(root, nil)
	for _, f := range fieldsOf(root) {
		if f.String() != "spec.store.class" {
			continue
		}
		content := state{[]change{{f, value{set: "fast"}}}}.contentOf(root, base)
		encoded, err := json.Marshal(content)
		if err != nil || string(encoded) != `{"spec":{"store":{"class":"fast","size":4}}}` {
			t.Errorf("the content is %s (%v)", encoded, err)
		}
		return
	}
	t.Error("spec.store.class is no field")
}

func TestTheBaseIsCompletedWithRequiredFields(t *testing.T) {
	root := schemaOf(t, `{required: [spec], properties: {spec: {type: object, required: [a, b, c, d], properties: {
		a: {type: string, minLength: 3}, b: {type: array, minItems: 1, items: {type: boolean}}, c: {type: string, enum: [one, two]}, d: {type: number, maximum: 0.5}, e: {type: string}}}}}`)
	encoded, err := json.Marshal(baseOf(root, map[string]any{"spec": map[string]any{"c": "two"}}))
	if want := `{"spec":{"a":"xxx","b":[false],"c":"two","d":0.5}}`; err != nil || string(encoded) != want {
		t.Errorf("the base is %s, want %s (%v)", encoded, want, err)
	}
}

func TestRulesOfAParentConcernTheFieldsThatTheyName(t *testing.T) {
	root := schemaOf(t, `{properties: {spec: {type: object, x-kubernetes-validations: [{rule: self.low < 40}], properties: {low: {type: integer}, high: {type: integer}}}}}`)
	for _, f := range fieldsOf(root) {
		if got := slices.Contains(mine(f.rules).numbers, 40); got != (f.String() == "spec.low") {
			t.Errorf("%s: the rule concerns it: %v", f, got)
		}
	}
}

func TestConstantsOfRulesAreFound(t *testing.T) {
	found := mine([]string{`self.matches(r'^a\s+$') && self != "it's" && size(self) > -3 && x1 < 1.5 && 'b' == self`})
	if !slices.Equal(found.patterns, []string{`^a\s+$`}) || !slices.Equal(found.texts, []string{"it's", "b"}) || !slices.Contains(found.numbers, -3) {
		t.Errorf("found %+v", found)
	}
}

func TestASampleOfAPatternMatchesIt(t *testing.T) {
	for _, pattern := range []string{`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, `^(\d+|auto)$`, `^([a-z]{3}\.){2}[^x]+$`, `a|b`, `^$`, `.{5}`} {
		made := matching(pattern)
		if len(made) == 0 {
			t.Errorf("there is no sample of %s", pattern)
		}
		for _, text := range made {
			if !regexp.MustCompile(pattern).MatchString(text) {
				t.Errorf("%q does not match %s", text, pattern)
			}
		}
	}
	if made := matching(`(?<=x)y`); made != nil {
		t.Errorf("a pattern that Go does not have gives %q", made)
	}
}

// A schema of another author must not crash the exploration.
func TestNoSchemaCausesAPanic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := &props{Properties: map[string]props{"spec": drawSchema(t, 3)}}
		base := baseOf(root, nil)
		for _, f := range fieldsOf(root) {
			f.fill(nil)
			for _, v := range f.values {
				state{[]change{{f, v}}}.contentOf(root, base)
			}
		}
	})
}

func drawSchema(t *rapid.T, depth int) props {
	kinds := []string{"string", "integer", "number", "boolean", ""}
	if depth > 0 {
		kinds = append(kinds, "object", "array")
	}
	made := props{Type: rapid.SampledFrom(kinds).Draw(t, "type"), Pattern: rapid.SampledFrom([]string{"", "[", "^a+$"}).Draw(t, "pattern")}
	if rapid.Bool().Draw(t, "bounded") {
		least, most := rapid.Int64Range(-2, 100).Draw(t, "least"), rapid.Float64Range(-5, 5).Draw(t, "most")
		made.MinLength, made.MinItems, made.Minimum, made.Maximum = &least, &least, &most, &most
	}
	if rapid.Bool().Draw(t, "default") {
		made.Default = &apiextensionsv1.JSON{Raw: []byte(rapid.SampledFrom([]string{`"a"`, `1`, `{}`, `[]`, `null`, `{`}).Draw(t, "value"))}
	}
	switch made.Type {
	case "object":
		made.Properties = map[string]props{}
		for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3).Draw(t, "names") {
			made.Properties[name] = drawSchema(t, depth-1)
			made.Required = append(made.Required, rapid.SampledFrom([]string{name, "other"}).Draw(t, "required"))
		}
	case "array":
		if rapid.Bool().Draw(t, "items") {
			item := drawSchema(t, depth-1)
			made.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}
		}
	}
	return made
}

func TestOfAnOpaqueFieldOnlyTheGivenValuesAreTried(t *testing.T) {
	root := &props{Properties: map[string]props{"spec": *schemaOf(t, `
type: object
properties:
  affinity: {type: object, properties: {node: {type: string}, pod: {type: string}}}
  image: {type: string, enum: [a, b]}
`)}}
	fields := fieldsOf(root, "spec.affinity")
	if len(fields) != 2 || fields[0].String() != "spec.affinity" || fields[1].String() != "spec.image" {
		t.Fatalf("the fields are %v", fields)
	}
	fields[0].fill([]any{map[string]any{"node": "x"}})
	if values := fields[0].values; len(values) != 2 || !values[1].absent {
		t.Errorf("the values are %v, want the given one and its absence", values)
	}
}

func TestAnOptionThatNamesNoFieldIsRefused(t *testing.T) {
	root := &props{Properties: map[string]props{"spec": *schemaOf(t, `{type: object, properties: {affinity: {type: object}}}`)}}
	for want, subject := range map[string]Subject{
		"Subject.Values: the kind has no field spec.afinity": {Values: map[string][]any{"spec.afinity": {1}}},
		"Subject.Opaque: the kind has no field spec.afinity": {Opaque: []string{"spec.afinity"}},
	} {
		_, err := (&explorer{subject: subject}).classify(t.Context(), nil, fieldsOf(root, subject.Opaque...))
		if !errors.Is(err, ErrConfiguration) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
