package controller

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
)

// fieldsMatch reports whether a field selector may select an object. Field labels of the API server are
// mostly paths, such as spec.nodeName. A label that is no path of the object counts as matching: only the
// API server knows its value.
func fieldsMatch(selector string, object streams.Object) bool {
	selected, err := fields.ParseSelector(selector)
	if err != nil {
		return true
	}
	for _, required := range selected.Requirements() {
		values := valuesAt(object, required.Field)
		if len(values) > 0 && slices.Contains(values, required.Value) == (required.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}

// valuesAt returns the value at a path of an object, as a field label has it, or nil if the object has no
// such path. A field that is missing in a map may have any of several values.
func valuesAt(object streams.Object, path string) []string {
	switch path {
	case fieldName:
		return []string{object.GetName()}
	case fieldNamespace:
		return []string{object.GetNamespace()}
	}
	if open, is := object.(*unstructured.Unstructured); is {
		value, found, err := unstructured.NestedFieldNoCopy(open.Object, strings.Split(path, ".")...)
		switch {
		case err != nil:
			return nil
		case !found:
			return []string{"", "false", "0"}
		}
		return scalar(reflect.ValueOf(value))
	}
	value := reflect.ValueOf(object)
	for _, name := range strings.Split(path, ".") {
		if value = fieldNamed(dereferenced(value), name); !value.IsValid() {
			return nil
		}
	}
	return scalar(dereferenced(value))
}

// dereferenced returns what a pointer points to. For nil, that is a zero value.
func dereferenced(value reflect.Value) reflect.Value {
	for value.Kind() == reflect.Pointer {
		if value.IsNil() {
			value = reflect.Zero(value.Type().Elem())
		} else {
			value = value.Elem()
		}
	}
	return value
}

// fieldNamed returns the field of a struct with a name in JSON, or an invalid value.
func fieldNamed(value reflect.Value, name string) reflect.Value {
	if value.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	for i := range value.NumField() {
		field := value.Type().Field(i)
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case tag == name && field.IsExported():
			return value.Field(i)
		case tag == "" && field.Anonymous:
			if found := fieldNamed(dereferenced(value.Field(i)), name); found.IsValid() {
				return found
			}
		}
	}
	return reflect.Value{}
}

// scalar returns a value as text, or nil if it has parts.
func scalar(value reflect.Value) []string {
	switch value.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		return []string{fmt.Sprint(value.Interface())}
	}
	return nil
}
