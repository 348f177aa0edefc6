package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// replica is one process.
type replica struct {
	*world
	number  int // 1 and above
	wire    *wire
	group   *lifecycle.Group
	manager *controller.Manager // nil for a light one
	light   *light              // nil for one with a cache
	gone    bool
}

// start starts all replicas, a second apart.
func (w *world) start(ctx context.Context) error {
	for i := range w.cell.Replicas {
		if err := w.join(ctx); err != nil {
			return err
		}
		if i+1 < w.cell.Replicas {
			if err := w.pass(ctx, time.Second); err != nil {
				return err
			}
		}
	}
	return w.pass(ctx, window)
}

// join starts a replica.
func (w *world) join(ctx context.Context) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	made := &replica{world: w, number: len(w.replicas) + 1, group: lifecycle.New(context.WithoutCancel(ctx))}
	made.wire = newWire(0, made.number)
	if !w.real {
		made.wire.rate = w.cell.Rate
	}
	config := rest.CopyConfig(w.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { made.wire.next = next; return made.wire })
	options := shards.Options{Group: "simulation", Namespace: namespace, Identity: "replica-" + strconv.Itoa(made.number)}
	w.seed(made.number)
	run := []func(context.Context) error{}
	if w.cell.Caches == None || w.cell.Caches == Three && made.number > 2 && made.number <= w.cell.Replicas {
		requests, err := rest.HTTPClientFor(config)
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		if made.light, err = newLight(made, config, requests, options); err != nil {
			return err
		}
		run = append(run, made.light.member.Run, made.light.read)
	} else {
		if made.manager, err = made.newManager(config, scheme, options); err != nil {
			return err
		}
		run = append(run, made.manager.Run)
	}
	w.mu.Lock()
	w.replicas = append(w.replicas, made)
	w.mu.Unlock()
	for _, each := range run {
		made.group.Go("replica", each)
	}
	return nil
}

// newManager makes a replica with a cache.
func (r *replica) newManager(config *rest.Config, scheme *runtime.Scheme, options shards.Options) (*controller.Manager, error) {
	made, err := controller.NewManager(config, scheme, controller.Options{
		Shards:       &options,
		FieldManager: fieldManager, // Another one would make each object that is changed larger.
		Logger:       slog.New(slog.DiscardHandler),
		OnError: func(error) {
			if r.wire.dead.Err() == nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.failures++
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return made, made.Add("ships", r.reconcile, controller.For(&ship{}), controller.Owns(&sail{}))
}

// reconcile makes the sail of a ship follow its changes.
func (r *replica) reconcile(ctx context.Context, request operators.Request) (time.Duration, error) {
	client := r.manager.Client()
	of, err := controller.Get[*ship](ctx, client, request.NamespacedName)
	if err != nil {
		return 0, controller.IgnoreNotFound(err)
	}
	child, err := controller.Get[*sail](ctx, client, request.NamespacedName)
	if err != nil {
		return 0, err
	}
	if child.Spec.Round != of.Spec.Round {
		follows := child.DeepCopyObject().(*sail)
		follows.Spec.Round = of.Spec.Round
		if _, err := controller.Patch(ctx, client, follows, controller.MergeFrom(child)); err != nil {
			return 0, err
		}
	}
	return r.reconciled(request.Name)
}

// reconciled notes which replica has reconciled an object. It returns the delay of the requeue: 0 for none, except
// for a probe.
func (r *replica) reconciled(name string) (time.Duration, error) {
	number, err := strconv.Atoi(strings.TrimPrefix(name, "ship-"))
	if err != nil {
		return 0, operators.Terminal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return 0, nil
	}
	now := time.Now()
	if r.owner[number] != r.number {
		r.owner[number], r.movedAt = r.number, now
		r.moved++
	}
	slot, is := r.probes[number]
	if !is {
		return 0, nil
	}
	r.took(slot, now)
	return probeEvery, nil
}

// took notes that the probe of a slot was reconciled. The caller holds the lock.
func (w *world) took(slot int, now time.Time) {
	if last := w.probed[slot]; !last.IsZero() {
		w.pause = max(w.pause, now.Sub(last)-probeEvery)
	}
	w.probed[slot] = now
}

// await waits until the replica has read what it took over.
func (r *replica) await(ctx context.Context) error {
	if r.light != nil {
		return r.light.await(ctx)
	}
	return r.manager.Cache().Wait(ctx, cache.Current)
}

// objects returns the number of reconciled objects in the cache.
func (r *replica) objects() int {
	return r.manager.Cache().Store(schema.GroupKind{Group: version.Group, Kind: "Ship"}).Len()
}

// leave ends a replica in order.
func (r *replica) leave() {
	r.group.Stop()
	r.forget()
}

// kill ends a replica without a farewell.
func (r *replica) kill() {
	r.wire.cut()
	r.group.Stop()
	if r.light != nil {
		r.light.Own(shards.Set{})
	}
	r.forget()
}

func (r *replica) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
}
