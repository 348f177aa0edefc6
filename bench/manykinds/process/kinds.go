package main

import (
	"slices"

	"github.com/bellerophon-io/bellerophon/bench/manykinds"
	"github.com/bellerophon-io/bellerophon/controller"
	"k8s.io/apimachinery/pkg/runtime"
)

// kind is a kind with its controller.
type kind struct {
	register func(types *runtime.Scheme, i int)
	addTo    func(manager *controller.Manager, i int) error
}

// The digits of the number of a kind. Two of them make the Go type of the kind.
type (
	d0 struct{}
	d1 struct{}
	d2 struct{}
	d3 struct{}
	d4 struct{}
	d5 struct{}
	d6 struct{}
	d7 struct{}
	d8 struct{}
	d9 struct{}

	pair[Tens, Ones any] struct{}
)

// kinds returns all kinds, in the order of their numbers.
func kinds() []kind { return slices.Concat(ten[d0](), ten[d1](), ten[d2](), ten[d3](), ten[d4]()) }

func ten[T any]() []kind {
	return []kind{
		one[pair[T, d0]](), one[pair[T, d1]](), one[pair[T, d2]](), one[pair[T, d3]](), one[pair[T, d4]](),
		one[pair[T, d5]](), one[pair[T, d6]](), one[pair[T, d7]](), one[pair[T, d8]](), one[pair[T, d9]](),
	}
}

func one[K any]() kind { return kind{manykinds.Register[K], addTo[K]} }
