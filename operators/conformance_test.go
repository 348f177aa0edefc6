package operators_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
	"k8s.io/apimachinery/pkg/types"
)

// input is what goes into an operator. An int is a number from which the case makes a value for its
// operator. []int is a batch, an error is an error, a time.Duration is a wait, and a string is the
// value with which the source panics.
type input []any

// operatorCase is an operator of this package. Each operator has to pass the tests of this file.
type operatorCase struct {
	name string
	// over observes the operator over an input, and renders its output. It calls visit in user code
	// of the operator, if the operator has any.
	over func(ctx context.Context, in streams.Stream[int], visit func()) observation
	// fails is set if a panic of user code ends the stream with an error. Otherwise the panic is
	// part of a value.
	fails bool
	// without is set if the operator runs no user code.
	without bool
	// swallows is set if errors do not pass.
	swallows bool
	// grace is how long the operator offers its last output to a reader that has stopped reading.
	grace time.Duration
}

type observation struct {
	items <-chan rxgo.Item
	write func(rxgo.Item) []string
}

func observe[T any](ctx context.Context, stream streams.Stream[T], write func(T) string) observation {
	return observation{stream.Observe(ctx), func(item rxgo.Item) (all []string) {
		values, err := streams.Values[T](item)
		for _, value := range values {
			all = append(all, write(value))
		}
		if err != nil {
			all = append(all, "!"+err.Error())
		}
		return all
	}}
}

func mapped[T any](in streams.Stream[int], to func(int) T) streams.Stream[T] {
	return streams.MapOnReceive(in, func(batch []int) (all []T, err error) {
		for _, value := range batch {
			all = append(all, to(value))
		}
		return all, nil
	})
}

var operatorCases = []operatorCase{{
	name: "Debounce",
	over: func(ctx context.Context, in streams.Stream[int], _ func()) observation {
		events := mapped(in, func(i int) streams.Event { return event(fmt.Sprintf("a%d@%d", i, i+1)) })
		return observe(ctx, operators.Debounce(events, operators.DebounceOptions{Window: time.Millisecond}), written)
	},
	without: true,
}, {
	name: "Trigger",
	over: func(ctx context.Context, in streams.Stream[int], visit func()) observation {
		changes := mapped(in, func(i int) streams.Change { return change(i, nil, pod(fmt.Sprintf("a%d", i), "", "")) })
		rule := operators.Rule{Controller: "pods", Kind: podKind, Map: func(object streams.Object) []types.NamespacedName {
			visit()
			return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: object.GetName()}}
		}}
		return observe(ctx, operators.Trigger(changes, operators.NewRules(rule)), requested)
	},
	fails: true,
}, {
	name: "Reconcile",
	over: func(ctx context.Context, in streams.Stream[int], visit func()) observation {
		requests := mapped(in, func(i int) operators.Request { return request(fmt.Sprintf("a%d", i)) })
		controller := operators.Controller{Reconcile: func(context.Context, operators.Request) (time.Duration, error) {
			visit()
			return 0, nil
		}}
		results := operators.Reconcile(requests, operators.NewControllers(map[string]operators.Controller{"pods": controller}), one)
		return observe(ctx, results, func(result operators.Result) string {
			if result.Err != nil {
				return result.Err.Error()
			}
			return resulted(result)
		})
	},
	grace: operators.DefaultGrace,
}, {
	name: "Settle",
	over: func(ctx context.Context, in streams.Stream[int], visit func()) observation {
		busy := func() bool { visit(); return false }
		return observe(ctx, operators.Settle(in, operators.SettleOptions{Quiet: second, Busy: busy}), plain[bool])
	},
	fails:    true,
	swallows: true,
}, {
	name: "Counted",
	over: func(ctx context.Context, in streams.Stream[int], visit func()) observation {
		stage := func(in streams.Stream[int]) streams.Stream[int] {
			return streams.MapOnReceive(in, func(batch []int) ([]int, error) {
				visit()
				return batch, nil
			})
		}
		return observe(ctx, operators.Counted(in, stage, &operators.StageStats{}), plain[int])
	},
	fails: true,
}}

// source returns a stream that sends an input.
func source(in input) streams.Stream[int] {
	return streams.Create(func(ctx context.Context, out streams.Sink[int]) {
		for _, step := range in {
			switch step := step.(type) {
			case []int:
				out.Send(slices.Clone(step))
			case error:
				out.Error(step)
			case time.Duration:
				wait(ctx, step)
			case string:
				panic(step)
			}
		}
	})
}

// all reads an observation to its end, and returns its items as texts.
func all(of observation) (texts []string) {
	for item := range of.items {
		texts = append(texts, of.write(item)...)
	}
	return texts
}

func forEachOperator(t *testing.T, test func(t *testing.T, c operatorCase)) {
	for _, c := range operatorCases {
		bubble(t, c.name, func(t *testing.T) { test(t, c) })
	}
}

func nothing() {}

func TestEveryOperatorHasACase(t *testing.T) {
	found := 0
	for _, function := range functions(t) {
		if !function.Name.IsExported() || function.Type.Results == nil {
			continue
		}
		// An operator takes a streams.Stream[...] and returns one.
		parameters := function.Type.Params.List
		if len(parameters) == 0 || !isStream(parameters[0].Type) || !isStream(function.Type.Results.List[0].Type) {
			continue
		}
		found++
		if !slices.ContainsFunc(operatorCases, func(c operatorCase) bool { return c.name == function.Name.Name }) {
			t.Errorf("%s is an operator and not in operatorCases", function.Name.Name)
		}
	}
	if found != len(operatorCases) {
		t.Errorf("found %d operators of %d cases", found, len(operatorCases))
	}
}

// isStream reports whether a type is a streams.Stream[...].
func isStream(of ast.Expr) bool {
	index, ok := of.(*ast.IndexExpr)
	if !ok {
		return false
	}
	selector, ok := index.X.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "Stream"
}

// functions returns the functions and methods of the package.
func functions(t *testing.T) (all []*ast.FuncDecl) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok {
				all = append(all, function)
			}
		}
	}
	return all
}

var errFirst, errSecond = errors.New("first"), errors.New("second")

func TestErrorsPassOperatorsInOrder(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		in := input{[]int{1, 2}, time.Second, errFirst, []int{3}, time.Second, errSecond, errFirst}
		var errs, values []string
		for _, text := range all(c.over(t.Context(), source(in), nothing)) {
			if strings.HasPrefix(text, "!") {
				errs = append(errs, fmt.Sprint(text, " after ", len(values)))
			} else {
				values = append(values, text)
			}
		}
		want := []string{"!first after 2", "!second after 3", "!first after 3"}
		if c.swallows {
			want = nil
		}
		if !slices.Equal(errs, want) {
			t.Errorf("got %v, want %v", errs, want)
		}
		if len(values) < 3 {
			t.Errorf("got only %v", values)
		}
	})
}

func TestOperatorsObservedTwiceHaveIndependentState(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		in := source(input{[]int{1, 2}, 3 * time.Second, []int{1}, 100 * time.Millisecond, errFirst, []int{2, 3}, 3 * time.Second})
		var first, second []string
		group := parallel(t, func(ctx context.Context) { first = all(c.over(ctx, in, nothing)) })
		second = all(c.over(t.Context(), in, nothing))
		_ = group.Wait()
		third := all(c.over(t.Context(), in, nothing))
		if len(first) < 4 || !slices.Equal(first, second) || !slices.Equal(first, third) {
			t.Errorf("observed %v and, at the same time, %v, then %v", first, second, third)
		}
	})
}

func TestOperatorsEndWhenTheyAreCancelledHalfWay(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		ctx, cancel := context.WithCancel(t.Context())
		of := c.over(ctx, source(input{[]int{1}, []int{2}, time.Hour}), nothing)
		if item, open := <-of.items; !open {
			t.Fatalf("the stream ended at once, with %v", item)
		}
		pass(time.Minute)
		cancel()
		started := time.Now()
		if left := all(of); len(left) > 16 || time.Since(started) != 0 {
			t.Errorf("%d items came within %v of the end of the context", len(left), time.Since(started))
		}
	})
}

func TestOperatorsEndWhenTheirReaderIsGone(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		ctx, cancel := context.WithCancel(t.Context())
		of := c.over(ctx, source(manyBatches(5000)), nothing)
		synctest.Wait()
		joins := c.name == "Settle" || c.name == "Reconcile" // They may send fewer items than they receive.
		if len(of.items) == 0 || len(of.items) != cap(of.items) && !joins {
			t.Errorf("%d of %d items wait for the reader", len(of.items), cap(of.items))
		}
		cancel()
		pass(c.grace) // No goroutine reads. bubble checks that none is left.
	})
}

func TestWhenAnOperatorHasEndedItsInputHasToo(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		var ended atomic.Bool
		in := streams.Create(func(ctx context.Context, out streams.Sink[int]) {
			out.Send([]int{1})
			<-ctx.Done()
			<-time.After(time.Minute) // The source has something to clean up.
			ended.Store(true)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		all(c.over(ctx, in, nothing))
		if !ended.Load() {
			t.Error("its channel was closed before its input had ended")
		}
	})
}

func manyBatches(n int) (in input) {
	for i := range n {
		in = append(in, []int{i})
	}
	return in
}

func TestAPanicUpstreamBecomesAnErrorBehindTheValuesBeforeIt(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		got := all(c.over(t.Context(), source(input{[]int{1, 2}, time.Second, "broken"}), nothing))
		if c.swallows {
			return
		}
		if len(got) != 3 || got[2] != "!panic: broken" {
			t.Errorf("got %v, want two values and the panic", got)
		}
	})
}

func TestAPanicOfUserCodeBecomesAnError(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		if c.without {
			return
		}
		of := c.over(t.Context(), source(input{[]int{1, 2}, 3 * time.Second, []int{3}}), func() { panic("broken") })
		got := all(of)
		if c.fails {
			if last := got[len(got)-1]; !strings.HasPrefix(last, "!") || !strings.HasSuffix(last, "panic: broken") {
				t.Errorf("got %v, want the panic as the last", got)
			}
			return
		}
		if got[0] != "panic: broken" || len(got) < 3 {
			t.Errorf("got %v, want a result for each", got)
		}
	})
}

func TestTheErrorOfAPanicHasItsStack(t *testing.T) {
	rule := self
	rule.Map = func(streams.Object) []types.NamespacedName { panic("broken") }
	_, errs := streams.Collect(t.Context(), operators.Trigger(streams.Of(change(1, nil, owned("a"))), operators.NewRules(rule)))
	var panicked *lifecycle.PanicError
	if len(errs) != 1 || !errors.As(errs[0], &panicked) || !strings.Contains(string(panicked.Stack), "conformance_test.go") {
		t.Errorf("got %v, want a PanicError with its stack", errs)
	}
}
