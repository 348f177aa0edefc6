package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/pipeline"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bellerophon returns the pipeline as the manager builds it, with a debounce window.
func bellerophon(name string, window time.Duration) side {
	return side{name: name, run: func(ctx context.Context, world *world, recorder *recorder) error {
		held, err := cache.New(cache.LoopOptions{}, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		var watches []streams.Stream[streams.Event]
		var stores []*cache.Store
		var rules []operators.Rule
		for i, feed := range world.feeds {
			kind := feed.script.kind
			watches = append(watches, sources.Watch(world.clients[i], kind, sources.WatchOptions{Transform: world.keep}))
			stores = append(stores, held.Add(kind.GroupKind(), cache.ByOwner))
			rule := operators.Rule{Controller: "shero", Kind: kind.GroupKind()}
			if i > 0 {
				rule.Map = operators.Owner(world.feeds[0].script.kind.GroupKind())
			}
			rules = append(rules, rule)
		}
		reconcile := func(_ context.Context, request operators.Request) (time.Duration, error) {
			recorder.reconcile(request.Name, func(kind int) (metav1.Object, bool) { return stores[kind].Get(request.NamespacedName) })
			return 0, nil
		}
		made, err := pipeline.New(streams.Merge(watches...), pipeline.Options{
			Cache:       held,
			Rules:       operators.NewRules(rules...),
			Controllers: operators.NewControllers(map[string]operators.Controller{"shero": {Reconcile: reconcile}}),
			Window:      window,
			Burst:       operators.DefaultBurst,
			Reconcile:   operators.ReconcileOptions{Workers: workers},
		})
		if err != nil {
			return err
		}
		var failures []error
		err = made.Run(ctx, func([]operators.Result) {}, func(err error) { failures = append(failures, err) })
		return errors.Join(append(failures, err)...)
	}}
}
