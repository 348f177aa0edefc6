package cache

import (
	"reflect"
	"sync"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// SizeOf estimates the bytes of heap that an object takes, with all that it points to. Dropping the
// object alone would free as much, within a quarter. Shared data, such as strings that are
// constants, is counted as the object's own.
//
// It walks the object, which takes a few microseconds for what Kubernetes calls small
// (BenchmarkSizeOf). For a sum over many objects, call it for one in 64 and multiply. It may be
// called from any goroutine, for an object that is not changed meanwhile.
func SizeOf(object streams.Object) int {
	value := reflect.ValueOf(object)
	if value.Kind() != reflect.Pointer || value.IsNil() {
		return 0
	}
	return allocated(int(value.Type().Elem().Size())) + beyond(value.Elem())
}

// beyond returns the bytes that a value points to, without the bytes of the value itself.
func beyond(value reflect.Value) int {
	if isFlat(value.Type()) {
		return 0
	}
	switch value.Kind() {
	case reflect.String:
		return allocated(value.Len())
	case reflect.Pointer:
		if value.IsNil() {
			return 0
		}
		return allocated(int(value.Type().Elem().Size())) + beyond(value.Elem())
	case reflect.Interface:
		if value.IsNil() {
			return 0
		}
		held := value.Elem()
		if held.Kind() == reflect.Pointer || held.Kind() == reflect.Map {
			return beyond(held) // The pointer is in the interface itself.
		}
		return allocated(int(held.Type().Size())) + beyond(held)
	case reflect.Slice:
		size := allocated(value.Cap() * int(value.Type().Elem().Size()))
		return size + beyondEach(value)
	case reflect.Array:
		return beyondEach(value)
	case reflect.Map:
		return sizeOfMap(value)
	case reflect.Struct:
		size := 0
		for i := range value.NumField() {
			size += beyond(value.Field(i))
		}
		return size
	}
	return 0
}

// beyondEach returns the bytes that the elements of a slice or array point to.
func beyondEach(value reflect.Value) int {
	size := 0
	if !isFlat(value.Type().Elem()) {
		for i := range value.Len() {
			size += beyond(value.Index(i))
		}
	}
	return size
}

// A map of Go has a header, and groups of eight slots with a control word. A small map is one
// group. A larger one grows by doubling and is filled to seven eighths at most.
const (
	mapHeader = 48
	mapGroup  = 8
	mapTable  = 64 // overhead of each table of groups, and of the directory
)

// sizeOfMap returns the bytes that a map takes, with all that it points to.
func sizeOfMap(value reflect.Value) int {
	if value.IsNil() {
		return 0
	}
	size := mapHeader
	group := 8 + mapGroup*(int(value.Type().Key().Size())+int(value.Type().Elem().Size()))
	switch entries := value.Len(); {
	case entries == 0:
	case entries <= mapGroup:
		size += allocated(group)
	default:
		slots := 2 * mapGroup
		for slots*7/8 < entries {
			slots *= 2
		}
		size += mapTable + allocated(slots/mapGroup*group)
	}
	each := value.MapRange()
	for each.Next() {
		size += beyond(each.Key()) + beyond(each.Value())
	}
	return size
}

// allocated returns what the allocator takes for a number of bytes: sizes come in classes.
func allocated(size int) int {
	switch {
	case size <= 0:
		return 0
	case size <= 8:
		return 8
	case size <= 256:
		return roundUp(size, 16)
	case size <= 512:
		return roundUp(size, 32)
	case size <= 1024:
		return roundUp(size, 128)
	case size <= 32<<10: // Classes are about an eighth apart.
		return size + size/16
	}
	return roundUp(size, 8<<10)
}

func roundUp(size, to int) int { return (size + to - 1) / to * to }

// flat caches which types point to nothing, or to nothing of their own, as time.Time does.
var flat sync.Map // of reflect.Type to bool

var timeType = reflect.TypeFor[time.Time]()

// isFlat reports whether values of a type point to nothing, which spares the walk through them.
func isFlat(of reflect.Type) bool {
	switch of.Kind() {
	case reflect.String, reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		return false
	case reflect.Array:
		return isFlat(of.Elem())
	case reflect.Struct:
	default:
		return true
	}
	if known, found := flat.Load(of); found {
		return known.(bool)
	}
	is := true
	for i := 0; is && i < of.NumField(); i++ {
		is = isFlat(of.Field(i).Type)
	}
	is = is || of == timeType
	flat.Store(of, is)
	return is
}
