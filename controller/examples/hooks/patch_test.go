package main

import (
	"strings"
	"testing"
)

func TestOperationsAreReadFromJSONAndYAML(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		`{"operation":"Delete","kind":"Pod","name":"a","namespace":"n"}{"operation":"DeleteInBackground","kind":"Pod","name":"b"}`:                                "Delete Pod a, DeleteInBackground Pod b",
		"operation: Create\nobject:\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n---\noperation: JQPatch\nkind: Pod\nname: b\njqFilter: .a = 1\n": "Create ConfigMap a, JQPatch Pod b",
		"operation: Create\nobject: |\n  {\"apiVersion\":\"v1\", \"kind\":\"ConfigMap\", \"metadata\":{\"name\":\"a\"}}\n":                                        "Create ConfigMap a",
		"operation: MergePatch\nkind: Pod\nname: a\nmergePatch: |\n  spec:\n    replicas: 1\n":                                                                    `MergePatch Pod a {"spec":{"replicas":1}}`,
		`{"operation":"JSONPatch","kind":"Pod","name":"a","jsonPatch":"[{\"op\":\"remove\",\"path\":\"/a\"}]"}`:                                                   `JSONPatch Pod a [{"op":"remove","path":"/a"}]`,
	} {
		operations, err := parseOperations([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		var got []string
		for _, each := range operations {
			got = append(got, strings.TrimSpace(strings.Join([]string{each.Operation, each.Kind, each.object.GetName(), string(each.body)}, " ")))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q is read as %q, want %q", text, got, want)
		}
	}
}

func TestAMistakeInAnOperationIsAnErrorThatNamesItAndQuotesNoValue(t *testing.T) {
	for text, want := range map[string]string{
		"operation: Create\nobject: canary":                                                   "object is missing, or does not begin with {",
		"operation: Explode\nkind: Pod":                                                       `operation is "Explode"`,
		"operation: Delete\nkind: Pod":                                                        "name is missing",
		"operation: Delete\nname: x":                                                          "kind is missing",
		"operation: JQPatch\nkind: Pod\nname: x\njqFilter: '.['":                              "jqFilter is",
		"operation: JSONPatch\nkind: Pod\nname: x\njsonPatch: {a: canary}":                    "jsonPatch is missing, or does not begin with [",
		"operation: MergePatch\nkind: Pod\nname: x\nmergePatch: 'canary: ['":                  "mergePatch is a string of neither JSON nor YAML",
		"operation: MergePatch\nkind: Pod\nname: x\nmergePatch: {}\nignoreHookError: true":    `unknown field "ignoreHookError"`,
		"operation: Delete\nkind: Pod\nname: x\n---\ncanary: [":                               "operation 2: it is neither JSON nor YAML",
		"operation: Create\nobject: {apiVersion: v1, kind: Secret, data: {password: canary}}": "object has no metadata.name",
	} {
		_, err := parseOperations([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: the error is %v, want one with %q", text, err, want)
		}
	}
}

// Hooks write operations in the forms of their tools: jq prints JSON over several lines, echo appends a line, and a
// here-document has YAML.
func TestOperationsAreReadInEachFormThatToolsWrite(t *testing.T) {
	for name, content := range map[string]string{
		"JSON lines": `{"operation": "Delete", "kind": "Pod", "namespace": "n", "name": "a"}
{"operation": "Delete", "kind": "Pod", "namespace": "n", "name": "b"}
`,
		"JSON of jq": "{\n  \"operation\": \"Delete\",\n  \"kind\": \"Pod\",\n  \"name\": \"a\"\n}\n{\n  \"operation\": \"Delete\",\n  \"kind\": \"Pod\",\n  \"name\": \"b\"\n}\n",
		"long JSON": `{"operation": "Create", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "` + strings.Repeat("x", 100_000) + `"}}}` +
			`{"operation": "Delete", "kind": "Pod", "name": "b"}`,
		"YAML":                      "operation: Delete\nkind: Pod\nname: a\n---\noperation: Delete\nkind: Pod\nname: b\n",
		"YAML that begins with a -": "---\noperation: Delete\nkind: Pod\nname: a\n---\noperation: Delete\nkind: Pod\nname: b\n---\n",
		"JSON between -":            "---\n{\"operation\": \"Delete\", \"kind\": \"Pod\", \"name\": \"a\"}\n---\n{\"operation\": \"Delete\", \"kind\": \"Pod\", \"name\": \"b\"}\n",
		"JSON and then YAML":        "{\"operation\": \"Delete\", \"kind\": \"Pod\", \"name\": \"a\"}\n---\noperation: Delete\nkind: Pod\nname: b\n",
		"a string of JSON":          "operation: Create\nobject: |\n  {\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\",\n   \"metadata\": {\"name\": \"a\"}}\n---\noperation: Delete\nkind: Pod\nname: b\n",
	} {
		operations, err := parseOperations([]byte(content))
		if err != nil || len(operations) != 2 || operations[0].object.GetName() != "a" || operations[1].object.GetName() != "b" {
			t.Errorf("%s: %d operations, and the error %v", name, len(operations), err)
		}
	}
}
