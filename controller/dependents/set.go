package dependents

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultConcurrency is the default of Options.Concurrency.
const DefaultConcurrency = 4

// Options configures a [Set]. The zero value is a good choice.
type Options struct {
	// Concurrency bounds the children of one owner that are made and applied at once: 1 to 64.
	// DefaultConcurrency if 0.
	Concurrency int
}

// Set keeps the children of owners of type O. It has no state of its own, and may be used by many
// goroutines.
type Set[O streams.Object] struct {
	name        string
	concurrency int
	nodes       []*node[O]
	before      map[*node[O]][]*node[O] // the nodes that a node comes After
	behind      map[*node[O]][]*node[O] // the nodes that come After a node
}

// NewSet creates a set. name is a label value that identifies the set among the sets of an owner. It must
// not change between versions of the program.
func NewSet[O streams.Object](name string, options Options, members ...Dependent[O]) (*Set[O], error) {
	s := &Set[O]{name: name, concurrency: options.Concurrency, before: map[*node[O]][]*node[O]{}, behind: map[*node[O]][]*node[O]{}}
	if s.concurrency == 0 {
		s.concurrency = DefaultConcurrency
	}
	fail := func(err error) (*Set[O], error) { return nil, fmt.Errorf("dependents: set %q: %w", name, err) }
	switch {
	case s.concurrency < 1 || s.concurrency > 64:
		return fail(fmt.Errorf("the option Concurrency is %d; allowed is 1 to 64", options.Concurrency))
	case len(members) == 0:
		return fail(errors.New("it has no dependents; give at least one"))
	}
	if err := validName("the name of the set", name); err != nil {
		return fail(err)
	}
	for _, member := range members {
		if of := reflect.ValueOf(member); !of.IsValid() || of.IsNil() {
			return fail(errors.New("a dependent is nil"))
		}
		s.nodes = append(s.nodes, member.node())
	}
	for i, n := range s.nodes {
		if err := n.validate(); err != nil {
			return fail(fmt.Errorf("dependent %q: %w", n.name, err))
		}
		if slices.ContainsFunc(s.nodes[:i], func(other *node[O]) bool { return other.name == n.name }) {
			return fail(fmt.Errorf("two dependents have the name %q; choose different names", n.name))
		}
		for _, other := range n.after {
			if other == nil || !slices.Contains(s.nodes, other.node()) {
				return fail(fmt.Errorf("dependent %q comes After a dependent that is not in the set; add it", n.name))
			}
			s.before[n] = append(s.before[n], other.node())
			s.behind[other.node()] = append(s.behind[other.node()], n)
		}
	}
	if cycle := s.cycle(); cycle != "" {
		return fail(fmt.Errorf("After makes a cycle: %s", cycle))
	}
	return s, nil
}

func validName(what, name string) error {
	if wrong := validation.IsValidLabelValue(name); name == "" || len(wrong) > 0 {
		return fmt.Errorf("%s is %q; it must be a label value that is not empty: at most 63 letters, digits, '-', '_' and '.'", what, name)
	}
	return nil
}

// validate returns an error for a dependent that is declared wrongly.
func (n *node[O]) validate() error {
	switch {
	case n.wrong != nil:
		return n.wrong
	case n.typed.Kind() != reflect.Pointer:
		return fmt.Errorf("its type is %v; give the pointer to an API type", n.typed)
	case sources.NamesItsKind(n.typed) && n.kind.Empty():
		return fmt.Errorf("%v stands for several kinds; name one with OfKind", n.typed)
	case slices.ContainsFunc(n.when, func(condition func(O, *View) bool) bool { return condition == nil }):
		return errors.New("When has no condition; give a function or leave When out")
	}
	return validName("its name", n.name)
}

// cycle returns the names of dependents that wait for each other, or "".
func (s *Set[O]) cycle() string {
	done := map[*node[O]]bool{}
	var path []*node[O]
	var visit func(n *node[O]) string
	visit = func(n *node[O]) string {
		if at := slices.Index(path, n); at >= 0 {
			return strings.Join(namesOf(append(path[at:], n)), " after ")
		}
		if done[n] {
			return ""
		}
		path = append(path, n)
		for _, other := range s.before[n] {
			if found := visit(other); found != "" {
				return found
			}
		}
		path, done[n] = path[:len(path)-1], true
		return ""
	}
	for _, n := range s.nodes {
		if found := visit(n); found != "" {
			return found
		}
	}
	return ""
}

// Owns returns the options that make a controller watch the kinds of the set: see [controller.Owns].
func (s *Set[O]) Owns() []controller.Option {
	type watched struct {
		of   reflect.Type
		kind schema.GroupVersionKind
	}
	var order []watched
	options, objects := map[watched][]controller.InputOption{}, map[watched]streams.Object{}
	for _, n := range s.nodes {
		key := watched{n.typed, n.kind}
		if _, known := options[key]; !known {
			order = append(order, key)
			options[key], objects[key] = nil, n.empty()
			if !n.kind.Empty() {
				options[key] = append(options[key], controller.OfKind(n.kind))
			}
		}
		options[key] = append(options[key], n.watch...)
	}
	made := make([]controller.Option, len(order))
	for i, key := range order {
		made[i] = controller.Owns(objects[key], options[key]...)
	}
	return made
}

// Name returns the name of the set.
func (s *Set[O]) Name() string { return s.name }

// Finalizer returns an option that deletes the children in reverse order before their owner goes: see
// [controller.Finalizer]. Without it, the garbage collector deletes them all at once after their owner.
// name is the name of the finalizer, such as "acme.io/children".
func (s *Set[O]) Finalizer(c *controller.Client, name string) controller.Option {
	return controller.Finalizer(name, func(ctx context.Context, owner O) (time.Duration, error) {
		outcome := s.Delete(ctx, c, owner)
		switch {
		case outcome.Err() != nil:
			_, err := outcome.Result()
			return 0, err
		case outcome.Gone():
			return 0, nil
		}
		return untilGone, nil
	})
}

// untilGone is the time after which a finalizer looks again for children that remain. The event of the
// deletion makes a request earlier.
const untilGone = time.Hour

// namesOf returns the names of dependents.
func namesOf[O streams.Object](nodes []*node[O]) (names []string) {
	for _, n := range nodes {
		names = append(names, n.name)
	}
	return names
}
