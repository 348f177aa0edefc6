package pipeline_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// horseKind is the kind of the objects that lines name. No API server has it.
var horseKind = schema.GroupKind{Group: "example.com", Kind: "Horse"}

// horses is an event source: it emits a list of what it has, which is nothing, and then each line
// as a horse.
func horses(from io.Reader) streams.Stream[streams.Event] {
	return streams.Create(func(ctx context.Context, out streams.Sink[streams.Event]) {
		of := streams.Key{GroupKind: horseKind}
		out.Send([]streams.Event{
			{Type: streams.ListStart, Source: "horses", Key: of, ResourceVersion: "1", Received: time.Now()},
			{Type: streams.ListEnd, Source: "horses", Key: of, ResourceVersion: "1", Received: time.Now()},
		})
		scanner := bufio.NewScanner(from)
		for version := 2; scanner.Scan(); version++ {
			horse := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: scanner.Text(), ResourceVersion: fmt.Sprint(version)}}
			if !out.Send([]streams.Event{{
				Type: streams.Applied, Source: "horses", Key: streams.KeyOf(horseKind, horse),
				Object: horse, ResourceVersion: horse.ResourceVersion, Received: time.Now(),
			}}) {
				return
			}
		}
		if err := scanner.Err(); err != nil {
			out.Error(&streams.Error{Source: "horses", Err: err})
		}
		<-ctx.Done() // A source that ends would end the pipeline.
	})
}

// A pipeline runs over any stream of events, also without an API server.
func ExampleNew() {
	held, err := cache.New(cache.LoopOptions{}, slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Println(err)
		return
	}
	store := held.Add(horseKind)
	ctx, stop := context.WithCancel(context.Background())
	reconcile := func(_ context.Context, request operators.Request) (time.Duration, error) {
		_, found := store.Get(request.NamespacedName)
		fmt.Println("reconciled", request.Name, found)
		if request.Name == "arion" {
			stop()
		}
		return 0, nil
	}
	made, err := pipeline.New(horses(strings.NewReader("pegasus\narion\n")), pipeline.Options{
		Cache:       held,
		Rules:       operators.NewRules(operators.Rule{Controller: "horses", Kind: horseKind}),
		Controllers: operators.NewControllers(map[string]operators.Controller{"horses": {Reconcile: reconcile}}),
		Reconcile:   operators.ReconcileOptions{Workers: 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	held.Follow(made)
	err = made.Run(ctx, func([]operators.Result) {}, func(err error) { fmt.Println(err) })
	fmt.Println(err)
	// Output:
	// reconciled pegasus true
	// reconciled arion true
	// <nil>
}
