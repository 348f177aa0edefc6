package project

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/devfile/api/v2/pkg/apis/workspaces/v1alpha2"
	"github.com/devfile/api/v2/pkg/utils/overriding"
	"github.com/devfile/api/v2/pkg/validation"
	devfilev2 "github.com/devfile/library/v2/pkg/devfile/parser/data/v2"
	schema220 "github.com/devfile/library/v2/pkg/devfile/parser/data/v2/2.2.0"
	schema221 "github.com/devfile/library/v2/pkg/devfile/parser/data/v2/2.2.1"
	schema222 "github.com/devfile/library/v2/pkg/devfile/parser/data/v2/2.2.2"
	schema230 "github.com/devfile/library/v2/pkg/devfile/parser/data/v2/2.3.0"
	"github.com/xeipuuv/gojsonschema"
	"sigs.k8s.io/yaml"
)

// This file uses the devfile library's schemas, types, overrides, merge and validation, and not its package
// parser. The parser downloads devfiles, and copies the directory of a parent over the project. It also
// needs a release of docker/cli that go-containerregistry excludes.

// version is a schema version.
type version [3]int

// oldest is the first version with deployByDefault.
var oldest = version{2, 2, 0}

var schemas = map[version]func() (*gojsonschema.Schema, error){
	oldest:    compile(schema220.JsonSchema220),
	{2, 2, 1}: compile(schema221.JsonSchema221),
	{2, 2, 2}: compile(schema222.JsonSchema222),
	{2, 3, 0}: compile(schema230.JsonSchema230),
}

func compile(schema string) func() (*gojsonschema.Schema, error) {
	return sync.OnceValues(func() (*gojsonschema.Schema, error) {
		return gojsonschema.NewSchema(gojsonschema.NewStringLoader(schema))
	})
}

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

func (v version) less(than version) bool { return slices.Compare(v[:], than[:]) < 0 }

// violation is a violation of the schema, or another mistake in one document.
type violation struct {
	path    []string
	message string
}

// String returns the violation as one line.
func (v violation) String() string {
	if len(v.path) == 0 {
		return v.message
	}
	return strings.Join(v.path, ".") + ": " + v.message
}

// toJSON converts a document as the library does, except that a key may not be there twice.
func toJSON(document []byte) (map[string]any, error) {
	converted, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(converted, &fields); err != nil || fields == nil {
		return nil, errors.New("the document is not a mapping: begin it with schemaVersion: 2.2.0")
	}
	return fields, nil
}

// versionOf returns the schema version of a document.
func versionOf(fields map[string]any) (version, []violation) {
	wrong := func(format string, args ...any) (version, []violation) {
		return version{}, []violation{{path: []string{"schemaVersion"}, message: fmt.Sprintf(format, args...)}}
	}
	value, found := fields["schemaVersion"]
	if !found {
		return wrong("is missing: add schemaVersion: 2.2.0")
	}
	text, isText := value.(string)
	number, _, _ := strings.Cut(text, "-")
	var has version
	if _, err := fmt.Sscanf(number, "%d.%d.%d", &has[0], &has[1], &has[2]); err != nil || !isText {
		return wrong("%v is not of the form 2.2.0", value)
	}
	if has.less(oldest) {
		return wrong("%s is too old: convert the devfile to %s or newer", text, oldest)
	}
	if schemas[has] == nil {
		return wrong("%s is not known: use a version from %s to 2.3.0", text, oldest)
	}
	return has, nil
}

// decode returns a document as the library's type, after a check against the schema.
func decode(fields map[string]any) (*devfilev2.DevfileV2, []violation) {
	has, wrong := versionOf(fields)
	if wrong != nil {
		return nil, wrong
	}
	failed := func(err error) (*devfilev2.DevfileV2, []violation) {
		return nil, []violation{{message: oneLine(err.Error())}}
	}
	schema, err := schemas[has]()
	if err != nil {
		return failed(err)
	}
	result, err := schema.Validate(gojsonschema.NewGoLoader(fields))
	if err != nil {
		return failed(err)
	}
	if wrong := violations(result); len(wrong) > 0 {
		return nil, wrong
	}
	document, err := json.Marshal(fields)
	if err != nil {
		return failed(err)
	}
	decoded := &devfilev2.DevfileV2{}
	if err := json.Unmarshal(document, decoded); err != nil {
		return failed(err)
	}
	return decoded, nil
}

// violations returns the errors of a check against the schema. It leaves an error out if another one explains it.
func violations(result *gojsonschema.Result) []violation {
	var found []violation
	for _, e := range result.Errors() {
		if slices.ContainsFunc(result.Errors(), func(other gojsonschema.ResultError) bool { return explains(other, e) }) {
			continue
		}
		var v violation
		if _, below, isBelow := strings.Cut(e.Context().String(), "."); isBelow {
			v.path = strings.Split(below, ".")
		}
		switch e.Type() {
		case "additional_property_not_allowed":
			v.path = append(v.path, fmt.Sprint(e.Details()["property"]))
			v.message = "the schema has no such field; check its spelling and its indentation"
		case "invalid_type":
			v.message = fmt.Sprintf("the type is %v instead of %v", e.Details()["given"], e.Details()["expected"])
			if e.Details()["expected"] == gojsonschema.TYPE_STRING {
				v.message += "; put the value in quotes"
			}
		case "number_one_of":
			v.message = "exactly one of the fields that exclude each other is allowed"
		default:
			v.message = lower(e.Description())
		}
		found = append(found, v)
	}
	return found
}

// explains reports whether one error makes another needless. The schema reports for each object that may
// have several forms that none fits, and for one form what is missing.
func explains(one, other gojsonschema.ResultError) bool {
	order := func(e gojsonschema.ResultError) int {
		switch e.Type() {
		case "number_one_of", "number_any_of", "number_all_of":
			return 2
		case "required":
			return 1
		}
		return 0
	}
	return order(one) < order(other) && strings.HasPrefix(one.Context().String()+".", other.Context().String()+".")
}

// flatten returns a devfile merged with its parents.
func (d *document) flatten() (*v1alpha2.DevWorkspaceTemplateSpecContent, error) {
	parent := &v1alpha2.DevWorkspaceTemplateSpecContent{}
	if d.parent != nil {
		flat, err := d.parent.flatten()
		if err != nil {
			return nil, err
		}
		if parent, err = overriding.OverrideDevWorkspaceTemplateSpec(flat, d.devfile.Parent.ParentOverrides); err != nil {
			return nil, d.located(err)
		}
	}
	merged, err := overriding.MergeDevWorkspaceTemplateSpec(&d.devfile.DevWorkspaceTemplateSpecContent, parent)
	if err != nil {
		return nil, d.located(err)
	}
	return merged, nil
}

// validated returns what the library finds wrong with a flattened devfile, a message each.
func validated(spec *v1alpha2.DevWorkspaceTemplateSpec) []string {
	var events v1alpha2.Events
	if spec.Events != nil {
		events = *spec.Events
	}
	var messages []string
	for _, err := range []error{
		validation.ValidateComponents(spec.Components),
		validation.ValidateCommands(spec.Commands, spec.Components),
		validation.ValidateEvents(events, spec.Commands),
		validation.ValidateProjects(spec.Projects),
		validation.ValidateStarterProjects(spec.StarterProjects),
	} {
		messages = append(messages, leaves(err)...)
	}
	return messages
}

func leaves(err error) (messages []string) {
	var several interface{ WrappedErrors() []error }
	if errors.As(err, &several) {
		for _, one := range several.WrappedErrors() {
			messages = append(messages, leaves(one)...)
		}
		return messages
	}
	var noDefault *validation.MissingDefaultCmdWarning // The groups that are used are checked already.
	if err == nil || errors.As(err, &noDefault) {
		return nil
	}
	return []string{lower(oneLine(err.Error()))}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// lower returns a message of a library as this project writes it.
func lower(message string) string {
	return strings.ToLower(message[:min(1, len(message))]) + message[min(1, len(message)):]
}
