package controller

import (
	"fmt"
	"reflect"
	"unsafe"
)

// identity identifies a function value. Two function values have the same identity if they share one
// closure: the same code and the same captured variables. Closures from two calls of one function
// differ. An identity keeps its function from being collected, so that no other function gets its
// address.
type identity unsafe.Pointer

// identityOf returns the identity of a function, or nil for nil. It panics for a value that is not a
// function. A function value is one pointer, to its closure. Package reflect only returns the pointer
// to the code, which all closures of one literal share.
func identityOf[F any](function F) identity {
	if of := reflect.TypeFor[F](); of.Kind() != reflect.Func {
		panic(fmt.Sprintf("controller: %v is not a function", of))
	}
	return *(*identity)(unsafe.Pointer(&function))
}
