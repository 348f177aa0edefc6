package controller

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/bellerophon-io/bellerophon/streams"
)

// encodeSet encodes the fields of an object that are set, except for the status, as JSON.
// encoding/json alone does not suffice: it writes the zero value of a field without omitempty, and a
// null in a patch deletes the field.
//
// A field is set unless it holds the zero value of its type, an empty map or an empty slice. A
// pointer that is not nil is set, whatever it points to. A struct is set if one of its fields is.
// Elements of slices and values of maps are always set.
func encodeSet(object streams.Object) ([]byte, error) {
	return encodeSetWithout(object, "status")
}

// encodeAllSet encodes the fields of an object that are set, with the status.
func encodeAllSet(object streams.Object) ([]byte, error) { return encodeSetWithout(object, "") }

// encodeSetWithout encodes the fields that are set, except for one part of the object.
func encodeSetWithout(object streams.Object, part string) ([]byte, error) {
	value := reflect.ValueOf(object)
	if encodesItself(value) { // An Unstructured, for example, has only fields that are set.
		split, err := partsOf(object)
		if err != nil {
			return nil, err
		}
		delete(split, part)
		return json.Marshal(split)
	}
	encoder := &setEncoder{without: part}
	if err := encoder.element(value); err != nil {
		return nil, err
	}
	return encoder.Bytes(), nil
}

// setEncoder is a buffer for the encoded object.
type setEncoder struct {
	bytes.Buffer
	without string // a field of the outermost struct that is left out
}

// field encodes the value of a field. It writes nothing for a struct without a field that is set.
// quoted reports whether the field's tag has the option string.
func (e *setEncoder) field(value reflect.Value, quoted bool) error {
	switch {
	case value.Kind() == reflect.Struct && !encodesItself(value):
		return e.object(value, false)
	case !quoted:
		return e.element(value)
	}
	encoded, err := json.Marshal(value.Interface())
	if err != nil {
		return err
	}
	return e.text(string(encoded))
}

// mayBeSet reports whether the value of a field is set. For a struct it may return true although none
// of its fields is set.
func mayBeSet(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Map, reflect.Slice:
		return value.Len() > 0
	default:
		return !value.IsZero()
	}
}

// element encodes a value that is set.
func (e *setEncoder) element(value reflect.Value) error {
	if encodesItself(value) {
		return e.leaf(value)
	}
	switch value.Kind() {
	case reflect.String:
		return e.text(value.String())
	case reflect.Pointer, reflect.Interface:
		if value.IsNil() {
			return nil
		}
		return e.element(value.Elem())
	case reflect.Struct:
		return e.object(value, true)
	case reflect.Map:
		if value.Type().Key().Kind() == reflect.String {
			return e.entries(value)
		}
	case reflect.Slice, reflect.Array:
		if value.Type().Elem().Kind() != reflect.Uint8 {
			return e.list(value)
		}
		if value.Kind() == reflect.Slice && value.IsNil() { // As a value of a map, as in a Secret, null would delete the key.
			return e.text("")
		}
	}
	return e.leaf(value)
}

// text encodes a string. Most strings have no character that JSON escapes.
func (e *setEncoder) text(value string) error {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || strings.IndexByte(`"\<>&`, c) >= 0 {
			return e.leaf(reflect.ValueOf(value))
		}
	}
	e.WriteByte('"')
	e.WriteString(value)
	return e.WriteByte('"')
}

// leaf encodes a value as encoding/json does, and writes nothing if the result is null.
func (e *setEncoder) leaf(value reflect.Value) error {
	if value.CanAddr() {
		value = value.Addr()
	}
	encoded, err := json.Marshal(value.Interface())
	if err != nil {
		return err
	}
	if !bytes.Equal(encoded, []byte("null")) {
		_, err = e.Write(encoded)
	}
	return err
}

// object encodes a struct. If none of its fields is set, it writes {} if empty is true, and otherwise
// nothing.
func (e *setEncoder) object(value reflect.Value, empty bool) error {
	without := e.without
	e.without = ""
	start := e.Len()
	e.WriteByte('{')
	for _, field := range fieldsOf(value.Type()) {
		of, err := value.FieldByIndexErr(field.index)
		if err != nil || !mayBeSet(of) || without != "" && field.name == without {
			continue // FieldByIndexErr fails if the field is in an embedded pointer that is nil.
		}
		if err := e.member(field.name, e.Len() == start+1, func() error { return e.field(of, field.quoted) }); err != nil {
			return err
		}
	}
	if !empty && e.Len() == start+1 {
		e.Truncate(start)
		return nil
	}
	return e.WriteByte('}')
}

// entries encodes a map, in the order of its keys.
func (e *setEncoder) entries(value reflect.Value) error {
	keys := value.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	start := e.Len()
	e.WriteByte('{')
	for _, key := range keys {
		if err := e.member(key.String(), e.Len() == start+1, func() error { return e.element(value.MapIndex(key)) }); err != nil {
			return err
		}
	}
	return e.WriteByte('}')
}

// member writes a name and the value that encode writes. If encode writes nothing, neither does member.
func (e *setEncoder) member(name string, first bool, encode func() error) error {
	start := e.Len()
	if !first {
		e.WriteByte(',')
	}
	if err := e.text(name); err != nil {
		return err
	}
	e.WriteByte(':')
	before := e.Len()
	if err := encode(); err != nil {
		return err
	}
	if e.Len() == before {
		e.Truncate(start)
	}
	return nil
}

// list encodes a slice or an array, without elements that would be null.
func (e *setEncoder) list(value reflect.Value) error {
	e.WriteByte('[')
	start := e.Len()
	for i := range value.Len() {
		before := e.Len()
		if before > start {
			e.WriteByte(',')
		}
		written := e.Len()
		if err := e.element(value.Index(i)); err != nil {
			return err
		}
		if e.Len() == written {
			e.Truncate(before)
		}
	}
	return e.WriteByte(']')
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// encodesItself reports whether the type of a value implements its own encoding, such as metav1.Time
// and resource.Quantity.
func encodesItself(value reflect.Value) bool {
	of := value.Type()
	if of.PkgPath() == "" && of.Kind() != reflect.Pointer && of.Kind() != reflect.Struct {
		return false // Only named types, and structs that embed a named type, have methods.
	}
	if value.CanAddr() { // The methods of the pointer include the methods of the value.
		of = reflect.PointerTo(of)
	}
	if known, found := encodeThemselves.Load(of); found {
		return known.(bool)
	}
	does := of.Implements(jsonMarshaler) || of.Implements(textMarshaler)
	encodeThemselves.Store(of, does)
	return does
}

var encodeThemselves sync.Map // by reflect.Type: whether the type does

// setField is a field of a struct, under its name in JSON.
type setField struct {
	name   string
	index  []int
	quoted bool // by the option string of its tag
}

var setFields sync.Map // by reflect.Type: the []setField of the type

// fieldsOf returns the fields of a struct and of the structs that it embeds. Of two fields with the
// same name, it returns the outer one.
func fieldsOf(of reflect.Type) []setField {
	if known, found := setFields.Load(of); found {
		return known.([]setField)
	}
	fields := appendFields(nil, of, nil, []reflect.Type{of})
	setFields.Store(of, fields)
	return fields
}

// appendFields appends the fields of a struct. index is the struct's place in the outermost one. outer
// holds the struct's type and the types around it, so that a type that embeds itself ends.
func appendFields(fields []setField, of reflect.Type, index []int, outer []reflect.Type) []setField {
	for i := range of.NumField() {
		field, at := of.Field(i), append(slices.Clone(index), i)
		tag := field.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		embedded := field.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		if field.Anonymous && name == "" && embedded.Kind() == reflect.Struct {
			if !slices.Contains(outer, embedded) {
				fields = appendFields(fields, embedded, at, append(slices.Clone(outer), embedded))
			}
			continue
		}
		if tag == "-" || !field.IsExported() {
			continue
		}
		if name == "" {
			name = field.Name
		}
		made := setField{name, at, slices.Contains(strings.Split(options, ","), "string")}
		switch known := slices.IndexFunc(fields, func(known setField) bool { return known.name == name }); {
		case known < 0:
			fields = append(fields, made)
		case len(at) < len(fields[known].index):
			fields[known] = made
		}
	}
	return fields
}
