package names

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/golden"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestTheReferenceIsOfTheDefinitions compares the pages in docs/reference with the resource definitions. With -update it writes them.
func TestTheReferenceIsOfTheDefinitions(t *testing.T) {
	for kind, file := range map[string]string{
		"BellerophonSimple": "crds/stable.simple-bellerophon.io_sheroes.yaml",
		"Bellerophon":       "files/heroes/stable.bellerophon.io_heroes.yaml",
	} {
		var definition apiextensionsv1.CustomResourceDefinition
		read(t, filepath.Join(operatorChart, file), &definition)
		if definition.Spec.Names.Kind != kind {
			t.Fatalf("%s is of the kind %s, want %s", file, definition.Spec.Names.Kind, kind)
		}
		golden.Compare(t, filepath.Join(root, "docs", "reference", strings.ToLower(kind)+".md"), referenceOf(definition.Spec))
	}
}

// referenceOf returns a page in Markdown about a kind. The stored version comes first.
func referenceOf(kind apiextensionsv1.CustomResourceDefinitionSpec) string {
	var page strings.Builder
	names := kind.Names
	fmt.Fprintf(&page, "# Reference: %s\n\n", names.Kind)
	page.WriteString("This page is generated from the resource definition: `go test ./internal/names -run Reference -update`.\n\n")
	fmt.Fprintf(&page, "kubectl knows the kind as `%s.%s`, `%s` and `%s`. Its objects belong to a namespace.\n",
		names.Plural, kind.Group, names.Singular, strings.Join(names.ShortNames, "`, `"))
	versions := slices.Clone(kind.Versions)
	slices.SortStableFunc(versions, func(a, b apiextensionsv1.CustomResourceDefinitionVersion) int {
		switch {
		case a.Storage == b.Storage:
			return 0
		case a.Storage:
			return -1
		default:
			return 1
		}
	})
	for _, version := range versions {
		fmt.Fprintf(&page, "\n## %s/%s\n\n", kind.Group, version.Name)
		if !version.Storage {
			fmt.Fprintf(&page, "An old version. The operator's webhooks convert it.\n\n")
		}
		schema := *version.Schema.OpenAPIV3Schema
		fmt.Fprintf(&page, "%s\n", schema.Description)
		if rules := rulesOf(schema); len(rules) > 0 {
			page.WriteString("\nThe API server refuses an object that breaks a rule, with one of these messages:\n\n")
			for _, rule := range rules {
				fmt.Fprintf(&page, "- %s\n", rule)
			}
		}
		page.WriteString("\n| field | type | default | meaning |\n|---|---|---|---|\n")
		for _, row := range documentedFields("", schema) {
			page.WriteString(row + "\n")
		}
		if columns := version.AdditionalPrinterColumns; len(columns) > 0 {
			page.WriteString("\n`kubectl get` shows:\n\n| column | field |\n|---|---|\n")
			for _, column := range columns {
				fmt.Fprintf(&page, "| %s | `%s` |\n", column.Name, column.JSONPath)
			}
		}
	}
	return page.String()
}

// documentedFields returns a row of a table for each field below a schema, and below its fields.
func documentedFields(before string, of apiextensionsv1.JSONSchemaProps) (rows []string) {
	for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
		if before == "" && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
			continue
		}
		property := of.Properties[name]
		kind, byDefault := property.Type, ""
		switch {
		case property.XIntOrString:
			kind = "integer or string"
		case property.Items != nil && property.Items.Schema != nil:
			kind = "list of " + property.Items.Schema.Type
		case property.AdditionalProperties != nil:
			kind = "map"
		}
		if slices.Contains(of.Required, name) {
			kind += ", required"
		}
		if property.Default != nil && name != "status" { // The default status is what kubectl shows until the operator writes one.
			byDefault = "`" + string(property.Default.Raw) + "`"
		}
		meaning := []string{property.Description}
		if len(property.Enum) > 0 {
			var allowed []string
			for _, value := range property.Enum {
				allowed = append(allowed, "`"+strings.Trim(string(value.Raw), `"`)+"`")
			}
			meaning = append(meaning, "Allowed: "+strings.Join(allowed, ", ")+".")
		}
		if rules := rulesOf(property); len(rules) > 0 {
			meaning = append(meaning, "Refused with: "+strings.Join(rules, "; or "))
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", before+name, kind, byDefault, cell(strings.Join(meaning, " "))))
		if slices.Contains(typesOfKubernetes, name) {
			continue
		}
		rows = append(rows, documentedFields(before+name+".", property)...)
		if property.Items != nil && property.Items.Schema != nil {
			rows = append(rows, documentedFields(before+name+"[].", *property.Items.Schema)...)
		}
		if property.AdditionalProperties != nil && property.AdditionalProperties.Schema != nil {
			rows = append(rows, documentedFields(before+name+".*.", *property.AdditionalProperties.Schema)...)
		}
	}
	return rows
}

// rulesOf returns the messages of the rules of a schema, in italics.
func rulesOf(of apiextensionsv1.JSONSchemaProps) (rules []string) {
	for _, rule := range of.XValidations {
		rules = append(rules, "*"+strings.ReplaceAll(rule.Message, "*", `\*`)+"*")
	}
	return rules
}

// cell returns a text as a cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
