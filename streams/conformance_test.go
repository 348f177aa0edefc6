package streams_test

import (
	"context"
	"errors"
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
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/reactivex/rxgo/v2"
)

// operatorCase is one way from a stream to a stream through an exported function of this package.
// Each case has to pass the tests of this file.
type operatorCase struct {
	name string
	// over applies the stage to an input. If the stage calls user code, that code calls visit for
	// each value.
	over func(in streams.Stream[int], visit func(int)) streams.Stream[int]
	// userCode is true if over calls visit.
	userCode bool
	// whole is true if the stage sends nothing before the input has ended.
	whole bool
	// foreign is true if RxGo is in between, which does not wait for its input to end.
	foreign bool
	// constant is true if the output does not depend on the input.
	constant bool
}

var operatorCases = []operatorCase{{
	name: "Create",
	over: func(in streams.Stream[int], visit func(int)) streams.Stream[int] {
		return streams.Create(func(ctx context.Context, out streams.Sink[int]) {
			ctx, cancel := context.WithCancel(ctx)
			items := in.Observe(ctx)
			defer func() {
				cancel()
				for range items { //nolint:revive // Waiting is the point.
				}
			}()
			forward(items, out, visit)
		})
	},
	userCode: true,
}, {
	name: "Of",
	over: func(streams.Stream[int], func(int)) streams.Stream[int] {
		return streams.MapOnReceive(streams.Of(1, 2, 3), func(batch []int) ([]int, error) {
			for i := range batch {
				batch[i] *= 10 // The next observation must not see this.
			}
			return batch, nil
		})
	},
	constant: true,
}, {
	name: "From",
	over: func(in streams.Stream[int], _ func(int)) streams.Stream[int] {
		return streams.From[int](in.Observable())
	},
	foreign: true,
}, {
	name: "Lift",
	over: func(in streams.Stream[int], visit func(int)) streams.Stream[int] {
		return streams.Lift(in, func(_ context.Context, in <-chan rxgo.Item, out streams.Sink[int]) {
			forward(in, out, visit)
		})
	},
	userCode: true,
}, {
	name: "MapOnReceive",
	over: func(in streams.Stream[int], visit func(int)) streams.Stream[int] {
		return streams.MapOnReceive(in, func(batch []int) ([]int, error) { visitAll(batch, visit); return batch, nil })
	},
	userCode: true,
}, {
	name: "Merge",
	over: func(in streams.Stream[int], _ func(int)) streams.Stream[int] {
		return streams.Merge(streams.Stream[int]{}, in)
	},
}, {
	name: "MergeWith",
	over: func(in streams.Stream[int], _ func(int)) streams.Stream[int] {
		return streams.MergeWith(in, streams.Create(func(ctx context.Context, _ streams.Sink[int]) { <-ctx.Done() }))
	},
}, {
	name: "Stream", // of Inputs
	over: throughInputs,
}, {
	name: "Batch",
	over: func(in streams.Stream[int], _ func(int)) streams.Stream[int] { return streams.Batch(in, 3) },
}, {
	name: "Share",
	over: func(in streams.Stream[int], visit func(int)) streams.Stream[int] {
		return streams.Share(in, streams.ShareOptions[int, []int]{
			Fold: func(all, batch []int) []int {
				visitAll(batch, visit)
				return append(all, batch...)
			},
			Replay: slices.Clone[[]int],
			Buffer: 4,
		})
	},
	userCode: true,
}, {
	name: "Drain",
	over: throughQueue,
}, {
	name: "Observable",
	over: func(in streams.Stream[int], _ func(int)) streams.Stream[int] {
		return streams.From[int](in.Observable())
	},
	foreign: true,
}, {
	name: "ForEach",
	over: func(in streams.Stream[int], visit func(int)) streams.Stream[int] {
		return streams.Create(func(ctx context.Context, out streams.Sink[int]) {
			err := streams.ForEach(ctx, in,
				func(batch []int) { visitAll(batch, visit); out.Send(batch) },
				func(err error) { out.Error(err) })
			if err != nil {
				out.Error(err)
			}
		})
	},
	userCode: true,
}, {
	name: "Collect",
	over: func(in streams.Stream[int], _ func(int)) streams.Stream[int] {
		return streams.Create(func(ctx context.Context, out streams.Sink[int]) {
			values, errs := streams.Collect(ctx, in)
			out.Send(values)
			for _, err := range errs {
				out.Error(err)
			}
		})
	},
	whole: true,
}}

// forward does what every stage must do at least.
func forward(in <-chan rxgo.Item, out streams.Sink[int], visit func(int)) {
	for item := range in {
		batch, err := streams.Values[int](item)
		visitAll(batch, visit)
		if len(batch) > 0 && !out.Send(batch) || err != nil && !out.Error(err) {
			return
		}
	}
}

func visitAll(batch []int, visit func(int)) {
	for _, value := range batch {
		visit(value)
	}
}

// throughQueue puts a stream into a queue and drains the queue. An error marks the end, because
// Drain ends only with its context.
func throughQueue(in streams.Stream[int], _ func(int)) streams.Stream[int] {
	end := errors.New("end")
	return until(end, streams.Create(func(ctx context.Context, out streams.Sink[int]) {
		queue := streams.NewQueue[int]()
		group := lifecycle.New(ctx)
		group.Go("put", func(ctx context.Context) error {
			defer queue.Error(ctx, end)
			return streams.ForEach(ctx, in,
				func(batch []int) { queue.Put(ctx, batch...) },
				func(err error) { queue.Error(ctx, err) })
		})
		queue.Drain(group.Context(), out)
		group.Stop()
		_ = group.Wait()
	}))
}

// throughInputs adds a stream to Inputs. As with Drain, an error marks the end.
func throughInputs(in streams.Stream[int], _ func(int)) streams.Stream[int] {
	end := errors.New("end")
	inputs := streams.NewMergeHub[int]()
	inputs.Add(streams.Create(func(ctx context.Context, out streams.Sink[int]) {
		defer out.Error(end)
		err := streams.ForEach(ctx, in, func(batch []int) { out.Send(batch) }, func(err error) { out.Error(err) })
		if err != nil {
			out.Error(err)
		}
	}))
	return until(end, inputs.Stream())
}

// until returns a stream up to an error.
func until(end error, in streams.Stream[int]) streams.Stream[int] {
	return streams.Lift(in, func(_ context.Context, in <-chan rxgo.Item, out streams.Sink[int]) {
		for item := range in {
			batch, err := streams.Values[int](item)
			if len(batch) > 0 && !out.Send(batch) || errors.Is(err, end) || err != nil && !out.Error(err) {
				return
			}
		}
	})
}

// forEachOperator runs a test for every case, in virtual time. The test fails if a goroutine is left
// at its end.
func forEachOperator(t *testing.T, test func(t *testing.T, c operatorCase)) {
	for _, c := range operatorCases {
		bubble(t, c.name, func(t *testing.T) { test(t, c) })
	}
}

func ignore(int) {}

func TestEveryOperatorHasACase(t *testing.T) {
	takesNoStream := []string{"NewBatch", "Recycle", "NewMergeHub", "Add", "NewQueue", "Put", "Send", "Error", "Item", "Channel", "Values", "Observe", "NewSubject", "Observed", "End"}
	for _, name := range exported(t) {
		known := slices.ContainsFunc(operatorCases, func(c operatorCase) bool { return c.name == name })
		if !known && !slices.Contains(takesNoStream, name) {
			t.Errorf("%s makes or takes a stream and is not in operatorCases", name)
		}
	}
}

// exported returns the names of the package's exported generic functions and methods. All functions
// that make or take a stream are generic, and hardly any other is.
func exported(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, function := range functions(t) {
		generic := function.Type.TypeParams != nil
		if function.Recv != nil {
			receiver := function.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			_, generic = receiver.(*ast.IndexExpr)
		}
		if generic && function.Name.IsExported() {
			names = append(names, function.Name.Name)
		}
	}
	if len(names) < len(operatorCases) {
		t.Fatalf("found only %v", names)
	}
	return names
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

func TestOperatorsKeepTheOrderOfValuesAndErrors(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		in := script[int]([]int{1, 2}, errFirst, []int{3}, time.Second, errSecond, []int{4, 5, 6, 7})
		want := []string{"1", "2", "!first", "3", "!second", "4", "5", "6", "7"}
		switch {
		case c.constant:
			want = []string{"10", "20", "30"}
		case c.whole:
			want = []string{"1", "2", "3", "4", "5", "6", "7", "!first", "!second"}
		}
		if got := flat(t.Context(), c.over(in, ignore)); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestOperatorsObservedTwiceHaveIndependentState(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		stream := c.over(script[int]([]int{1}, time.Second, errFirst, []int{2, 3}), ignore)
		var first, second []string
		group := parallel(t, func(ctx context.Context) { first = flat(ctx, stream) })
		second = flat(t.Context(), stream)
		_ = group.Wait()
		third := flat(t.Context(), stream)
		if len(first) == 0 || !slices.Equal(first, second) || !slices.Equal(first, third) {
			t.Errorf("observed %v and, at the same time, %v, then %v", first, second, third)
		}
	})
}

func TestOperatorsAreLazy(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		c.over(streams.Create(func(context.Context, streams.Sink[int]) { t.Error("the source runs unobserved") }), ignore)
		synctest.Wait()
	})
}

func TestOperatorsEndWhenTheyAreCancelledHalfWay(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		ctx, cancel := context.WithCancel(t.Context())
		items := c.over(ticking(), ignore).Observe(ctx)
		if !c.whole {
			if item, open := <-items; !open {
				t.Fatalf("the stream ended at once, with %v", item)
			}
		}
		<-time.After(10 * time.Millisecond)
		cancel()
		synctest.Wait() // All goroutines of the observation have returned, or wait for the reader alone.
		left := 0
		for range items {
			left++
		}
		if left > 16 {
			t.Errorf("%d items came after the end of the context", left)
		}
	})
}

func TestOperatorsEndWhenTheirReaderIsGone(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		if c.whole {
			return // It would collect forever.
		}
		ctx, cancel := context.WithCancel(t.Context())
		items := c.over(endless(), ignore).Observe(ctx)
		synctest.Wait() // The channel is full and everything waits for the reader.
		if !c.constant && len(items) != cap(items) {
			t.Errorf("%d of %d items wait for the reader", len(items), cap(items))
		}
		cancel() // Without a reader. The bubble fails the test if a goroutine is left.
	})
}

func TestWhenAnOperatorHasEndedItsInputHasToo(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		if c.constant || c.foreign {
			return
		}
		var ended atomic.Bool
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range c.over(slowToEnd(&ended), ignore).Observe(ctx) { //nolint:revive // Until it is closed.
		}
		if !ended.Load() {
			t.Error("its channel was closed before its input had ended")
		}
	})
}

func TestAPanicUpstreamBecomesAnErrorBehindTheValuesBeforeIt(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		if c.constant {
			return
		}
		got := flat(t.Context(), c.over(script[int]([]int{1, 2}, "broken", []int{3}), ignore))
		if want := []string{"1", "2", "!panic: broken"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestAPanicOfUserCodeBecomesAnErrorAndEndsTheStream(t *testing.T) {
	forEachOperator(t, func(t *testing.T, c operatorCase) {
		if !c.userCode {
			return
		}
		_, errs := streams.Collect(t.Context(), c.over(endless(), func(value int) {
			if value == 5 {
				panic("broken")
			}
		}))
		var panicked *lifecycle.PanicError
		if len(errs) != 1 || !errors.As(errs[0], &panicked) {
			t.Fatalf("got %v, want a PanicError", errs)
		}
		if !strings.Contains(string(panicked.Stack), "conformance_test.go") {
			t.Errorf("the stack does not name the function that panicked:\n%s", panicked.Stack)
		}
	})
}
