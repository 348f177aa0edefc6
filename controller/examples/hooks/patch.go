package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/itchyny/gojq"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// operation is one document of KUBERNETES_PATCH_PATH.
type operation struct {
	Operation           string          `json:"operation"`
	APIVersion          string          `json:"apiVersion"`
	Kind                string          `json:"kind"`
	Namespace           string          `json:"namespace"`
	Name                string          `json:"name"`
	Subresource         string          `json:"subresource"`
	Object              json.RawMessage `json:"object"`
	MergePatch          json.RawMessage `json:"mergePatch"`
	JSONPatch           json.RawMessage `json:"jsonPatch"`
	JQFilter            string          `json:"jqFilter"`
	IgnoreMissingObject bool            `json:"ignoreMissingObject"`

	object *unstructured.Unstructured // to create, or with only the name of what to patch or delete
	body   []byte                     // of a merge patch or a JSON patch
	filter *gojq.Code
}

// These are the values of operation.
const (
	opCreate             = "Create"
	opCreateOrUpdate     = "CreateOrUpdate"
	opCreateIfNotExists  = "CreateIfNotExists"
	opDelete             = "Delete"
	opDeleteInBackground = "DeleteInBackground"
	opDeleteNonCascading = "DeleteNonCascading"
	opMergePatch         = "MergePatch"
	opJSONPatch          = "JSONPatch"
	opJQPatch            = "JQPatch"
)

// parseOperations reads all operations before the first is applied, so that a mistake changes nothing.
func parseOperations(content []byte) (operations []*operation, err error) {
	documents := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for number := 1; ; number++ {
		var document json.RawMessage
		switch err := documents.Decode(&document); {
		case errors.Is(err, io.EOF):
			return operations, nil
		case err != nil:
			return nil, fmt.Errorf("operation %d: it is neither JSON nor YAML", number) // The error may quote a Secret.
		}
		if len(document) == 0 || string(document) == "null" {
			continue
		}
		read := &operation{}
		if err := decodeStrictly(document, read); err != nil {
			return nil, fmt.Errorf("operation %d: %w", number, err)
		}
		if err := read.prepare(); err != nil {
			return nil, fmt.Errorf("operation %d, %s: %w", number, read.Operation, err)
		}
		operations = append(operations, read)
	}
}

// prepare checks the fields of an operation, and decodes what it sends.
func (o *operation) prepare() (err error) {
	switch o.Operation {
	case opCreate, opCreateOrUpdate, opCreateIfNotExists:
		return o.prepareObject()
	case opDelete, opDeleteInBackground, opDeleteNonCascading:
		if o.Subresource != "" {
			return errors.New("subresource is set; a deletion has none")
		}
	case opMergePatch:
		o.body, err = unquoted("mergePatch", o.MergePatch, '{')
	case opJSONPatch:
		o.body, err = unquoted("jsonPatch", o.JSONPatch, '[')
	case opJQPatch:
		if o.JQFilter == "" {
			return errors.New("jqFilter is missing")
		}
		if o.filter, err = compileJQ(o.JQFilter); err != nil {
			err = fmt.Errorf("jqFilter is %q: %w", o.JQFilter, err)
		}
	default:
		return fmt.Errorf("operation is %q; allowed are Create, CreateOrUpdate, CreateIfNotExists, Delete, DeleteInBackground, DeleteNonCascading, MergePatch, JSONPatch and JQPatch", o.Operation)
	}
	switch {
	case err != nil:
		return err
	case o.Kind == "":
		return errors.New("kind is missing")
	case o.Name == "":
		return errors.New("name is missing")
	}
	o.object = &unstructured.Unstructured{Object: map[string]any{}}
	o.object.SetNamespace(o.Namespace)
	o.object.SetName(o.Name)
	return nil
}

func (o *operation) prepareObject() error {
	content, err := unquoted("object", o.Object, '{')
	if err != nil {
		return err
	}
	o.object = &unstructured.Unstructured{}
	if o.object.UnmarshalJSON(content) != nil {
		return errors.New("object is no object of Kubernetes; it needs apiVersion and kind")
	}
	if o.object.GetName() == "" && (o.object.GetGenerateName() == "" || o.Operation != opCreate) {
		return errors.New("object has no metadata.name")
	}
	o.APIVersion, o.Kind, o.Namespace = o.object.GetAPIVersion(), o.object.GetKind(), o.object.GetNamespace()
	return nil
}

// unquoted returns a value that is given as JSON, or as a string of JSON or YAML. It begins with first.
func unquoted(field string, value json.RawMessage, first byte) ([]byte, error) {
	content := []byte(value)
	if bytes.HasPrefix(content, []byte(`"`)) {
		var text string
		if err := json.Unmarshal(content, &text); err != nil {
			return nil, fmt.Errorf("%s is no string of JSON", field)
		}
		var err error
		if content, err = yaml.YAMLToJSON([]byte(text)); err != nil {
			return nil, fmt.Errorf("%s is a string of neither JSON nor YAML", field)
		}
	}
	content = bytes.TrimSpace(content)
	if len(content) == 0 || content[0] != first {
		return nil, fmt.Errorf("%s is missing, or does not begin with %c", field, first)
	}
	return content, nil
}
