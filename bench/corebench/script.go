package main

import (
	"fmt"
	"strconv"

	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// script defines the events of one kind's watch, by number: a list with each key, the end of the
// list, then updates that go round the keys.
//
//	0 .. keys-1   ADDED of key n
//	keys          BOOKMARK, the end of the list
//	keys+1 ..     MODIFIED of key (n-keys-1) % keys
type script struct {
	kind    sources.Kind
	make    func(name, version string) streams.Object
	keys    int
	updates int
}

// oldest is the resource version of number 0. All versions have the same number of digits.
const oldest = 1_000_000_000

func (s *script) length() int { return s.keys + 1 + s.updates }

func (s *script) typeOf(n int) watch.EventType {
	switch {
	case n < s.keys:
		return watch.Added
	case n == s.keys:
		return watch.Bookmark
	}
	return watch.Modified
}

// keyOf returns the key of a number. The number must not be the bookmark's.
func (s *script) keyOf(n int) int {
	if n < s.keys {
		return n
	}
	return (n - s.keys - 1) % s.keys
}

// after returns the number of the next event of a key after the event with number n.
func (s *script) after(n int) int {
	if n < s.keys {
		return n + s.keys + 1
	}
	return n + s.keys
}

func versionOf(n int) string { return strconv.Itoa(oldest + n) }

// numberOf returns the number of the event that carried an object.
func numberOf(object metav1.Object) int {
	version, err := strconv.Atoi(object.GetResourceVersion())
	if err != nil {
		panic(fmt.Sprintf("read the version of an object of the fake API server: %v", err))
	}
	return version - oldest
}

const keyDigits = 6

func nameOf(key int) string { return fmt.Sprintf("shero-%0*d", keyDigits, key) }

// keyOfName returns the key of a name that nameOf returned.
func keyOfName(name string) int {
	key, err := strconv.Atoi(name[len(name)-keyDigits:])
	if err != nil {
		panic(fmt.Sprintf("read the name of an object of the fake API server: %v", err))
	}
	return key
}

// bookmark returns the object at the end of the list.
func (s *script) bookmark() streams.Object {
	object := s.kind.New()
	object.SetResourceVersion(versionOf(s.keys))
	object.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return object
}
