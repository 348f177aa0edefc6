package controller

import (
	"fmt"
	"reflect"
	"unsafe"
)

// identity tells functions apart. Two values of a function are identical if they have the same code
// and the same captured variables: closures that one function made differ. It keeps the function
// from being collected, so that no other one takes its place.
type identity unsafe.Pointer

// identityOf returns the identity of a function, which is nil for nil. A function value is one
// pointer, to its closure. The package reflect has only the pointer to the code, which all
// closures of one literal share.
func identityOf[F any](function F) identity {
	if of := reflect.TypeFor[F](); of.Kind() != reflect.Func {
		panic(fmt.Sprintf("controller: %v is no function", of))
	}
	return *(*identity)(unsafe.Pointer(&function))
}
