package names

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/golden"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// operatorChart is the folder of the chart with the resource definitions and the rules.
var operatorChart = filepath.Join(root, "charts", "bellerophon-operator")

func read(t *testing.T, file string, into any) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatalf("reading %s: %v", file, err)
	}
}

func TestTheFieldsOfTheKindsAreListed(t *testing.T) {
	var rows []string
	for _, pattern := range []string{"crds/*.yaml", "files/heroes/*_*.yaml"} {
		files, err := filepath.Glob(filepath.Join(operatorChart, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no resource definition (%v)", pattern, err)
		}
		for _, file := range files {
			var definition apiextensionsv1.CustomResourceDefinition
			read(t, file, &definition)
			rows = append(rows, fieldsOf(definition.Spec)...)
		}
	}
	golden.Names(t, list("fields.txt"), rows)
}

// fieldsOf returns rows for a kind, its versions, their columns and their fields.
func fieldsOf(kind apiextensionsv1.CustomResourceDefinitionSpec) (rows []string) {
	rows = append(rows, fmt.Sprintf("%s\t%s.%s\tshort %v\tcategories %v\t%s", kind.Names.Kind, kind.Names.Plural, kind.Group, kind.Names.ShortNames, kind.Names.Categories, kind.Scope))
	for _, version := range kind.Versions {
		name := kind.Names.Kind + " " + version.Name
		rows = append(rows, fmt.Sprintf("%s\tserved %t\tstorage %t\tdeprecated %t", name, version.Served, version.Storage, version.Deprecated))
		for _, column := range version.AdditionalPrinterColumns {
			rows = append(rows, fmt.Sprintf("%s column %s\t%s\t%s", name, column.Name, column.Type, column.JSONPath))
		}
		for _, field := range version.SelectableFields {
			rows = append(rows, fmt.Sprintf("%s selector %s", name, field.JSONPath))
		}
		if below := version.Subresources; below != nil {
			if below.Status != nil {
				rows = append(rows, name+" subresource status")
			}
			if below.Scale != nil {
				rows = append(rows, name+" subresource scale")
			}
		}
		rows = append(rows, propertiesOf(name+" ", *version.Schema.OpenAPIV3Schema)...)
	}
	return rows
}

// typesOfKubernetes are the fields whose types Kubernetes defines.
var typesOfKubernetes = []string{"affinity", "conditions", "resources", "tolerations"}

// propertiesOf returns a row for each field below a schema. before is the path to it.
func propertiesOf(before string, of apiextensionsv1.JSONSchemaProps) (rows []string) {
	for name, property := range of.Properties {
		row := before + name + "\t" + detailsOf(property)
		if slices.Contains(of.Required, name) {
			row += ", required"
		}
		rows = append(rows, row)
		if !slices.Contains(typesOfKubernetes, name) {
			rows = append(rows, propertiesOf(before+name+".", property)...)
		}
	}
	if of.Items != nil && of.Items.Schema != nil {
		rows = append(rows, propertiesOf(before[:len(before)-1]+"[].", *of.Items.Schema)...)
	}
	if of.AdditionalProperties != nil && of.AdditionalProperties.Schema != nil {
		rows = append(rows, propertiesOf(before+"*.", *of.AdditionalProperties.Schema)...)
	}
	return rows
}

// detailsOf returns the type of a field, and what bounds its values.
func detailsOf(field apiextensionsv1.JSONSchemaProps) string {
	details := field.Type
	if field.XIntOrString {
		details = "integer or string"
	}
	for _, one := range []struct {
		name  string
		value any
		is    bool
	}{
		{"format", field.Format, field.Format != ""},
		{"default", field.Default, field.Default != nil},
		{"enum", field.Enum, field.Enum != nil},
		{"minimum", field.Minimum, field.Minimum != nil},
		{"maximum", field.Maximum, field.Maximum != nil},
		{"minLength", field.MinLength, field.MinLength != nil},
		{"maxLength", field.MaxLength, field.MaxLength != nil},
		{"minItems", field.MinItems, field.MinItems != nil},
		{"maxItems", field.MaxItems, field.MaxItems != nil},
		{"pattern", field.Pattern, field.Pattern != ""},
	} {
		if one.is {
			value, _ := json.Marshal(one.value) // Each came from JSON.
			details += fmt.Sprintf(", %s %s", one.name, bytes.Trim(value, `"`))
		}
	}
	return details
}

func TestTheValuesOfTheChartsAreListed(t *testing.T) {
	var rows []string
	for _, chart := range []string{"bellerophon", "bellerophon-operator"} {
		var values map[string]any
		read(t, filepath.Join(root, "charts", chart, "values.yaml"), &values)
		rows = append(rows, valuesOf(chart+" ", values)...)
	}
	golden.Names(t, list("values.txt"), rows)
}

// valuesOf returns a row with the default for each value of a chart.
func valuesOf(before string, values map[string]any) (rows []string) {
	for name, value := range values {
		if below, is := value.(map[string]any); is && len(below) > 0 {
			rows = append(rows, valuesOf(before+name+".", below)...)
			continue
		}
		text, _ := json.Marshal(value) // It came from YAML.
		rows = append(rows, before+name+"\tdefault "+string(text))
	}
	return rows
}

func TestTheAlertsAndRecordingRulesAreListed(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Record string
				Labels        struct{ Severity string }
			}
		}
	}
	read(t, filepath.Join(operatorChart, "files", "rules.yaml"), &rules)
	var rows []string
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" {
				rows = append(rows, rule.Alert+"\talert\t"+rule.Labels.Severity)
			} else {
				rows = append(rows, rule.Record+"\trecord")
			}
		}
	}
	golden.Names(t, list("rules.txt"), rows)
}
