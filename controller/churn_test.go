package controller_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// life is the life of one controller in the churn tests, from Add to Remove.
type life struct {
	park *park
	name string

	mu      sync.Mutex
	removed bool
	saw     map[string]string // name of an object to the version last read; an object that was not found has no entry
}

// reads gets the object to reconcile from the cache.
type reads func(*controller.Client, types.NamespacedName) (streams.Object, bool)

func readAs[T streams.Object](client *controller.Client, name types.NamespacedName) (streams.Object, bool) {
	object, found := cached[T](client, name)
	return object, found
}

// breeds lists the controllers that the churn tests add and remove.
var breeds = []struct {
	name    string
	read    reads
	options []controller.Option
	watches []string
}{
	{"configs", readAs[*corev1.ConfigMap], []controller.Option{ofConfigs}, []string{"ConfigMap"}},
	{"secrets", readAs[*corev1.Secret], []controller.Option{ofSecrets}, []string{"Secret"}},
	{"owners", readAs[*corev1.ConfigMap], []controller.Option{ofConfigs, controller.Owns(&corev1.Secret{}), controller.Owns(&corev1.Pod{})},
		[]string{"ConfigMap", "Secret", "Pod"}},
}

func (l *life) reconciler(read reads) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (time.Duration, error) {
		l.mu.Lock()
		if l.removed {
			l.park.t.Errorf("%s reconciles after its removal", l.name)
		}
		l.mu.Unlock()
		object, found := read(l.park.manager.Client(), request.NamespacedName)
		pause(ctx, 5)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.removed {
			l.park.t.Errorf("%s still reconciles after its removal", l.name)
		}
		if delete(l.saw, request.Name); found {
			l.saw[request.Name] = object.GetResourceVersion()
		}
		return 0, nil
	}
}

// pause waits for a random time of 1 to most milliseconds, or until ctx ends.
func pause(ctx context.Context, most int) {
	select {
	case <-time.After(time.Duration(1+rand.IntN(most)) * time.Millisecond):
	case <-ctx.Done():
	}
}

// churn adds and removes controllers of a breed. It returns the controller that is left at the
// end, or nil if the last one was removed too.
func (p *park) churn(ctx context.Context, breed int, rounds int) *life {
	of := breeds[breed]
	for round := range rounds {
		made := &life{park: p, name: of.name, saw: map[string]string{}}
		if err := p.manager.Add(of.name, made.reconciler(of.read), of.options...); err != nil {
			p.t.Error(err)
		}
		pause(ctx, 60)
		if round == rounds-1 && rand.IntN(2) == 0 {
			return made
		}
		if err := p.manager.Remove(ctx, of.name); err != nil {
			p.t.Error(err)
		}
		made.mu.Lock()
		made.removed = true
		made.mu.Unlock()
		if series := p.mentions(of.name); len(series) > 0 {
			p.t.Errorf("%s is still in %v", of.name, series)
		}
		pause(ctx, 30)
	}
	return nil
}

// write makes the given number of random changes at the server. Their errors are expected: Delete
// and Update fail if the object does not exist, and Create fails if it does.
func (p *park) write(ctx context.Context, times int) {
	for range times {
		name := fmt.Sprint(rand.IntN(5))
		object := []streams.Object{config(name), secret(name), &corev1.Pod{ObjectMeta: named(name)}}[rand.IntN(3)]
		object.SetLabels(map[string]string{"at": fmt.Sprint(rand.Int())})
		switch rand.IntN(3) {
		case 0:
			_ = p.server.Delete(object)
		case 1:
			_ = p.server.Update(object)
		default:
			_ = p.server.Create(object)
		}
		pause(ctx, 4)
	}
}

// versions returns the version of every object of a kind at the server, by name.
func (p *park) versions(kind string) map[string]string {
	p.t.Helper()
	versions := map[string]string{}
	if kind == "Secret" {
		list := &corev1.SecretList{}
		p.must(p.server.List(list))
		for _, object := range list.Items {
			versions[object.Name] = object.ResourceVersion
		}
		return versions
	}
	list := &corev1.ConfigMapList{}
	p.must(p.server.List(list))
	for _, object := range list.Items {
		versions[object.Name] = object.ResourceVersion
	}
	return versions
}

// Run this with -race. Add and Remove fail with an error once the manager has ended, and no
// goroutine is left running.
func TestTheManagerMayEndWhileControllersComeAndGo(t *testing.T) {
	for range 20 {
		inPark(t, func(p *park) {
			p.create(config("x"), secret("x"))
			p.add("permanent", ofConfigs)
			p.run()
			group := lifecycle.New(p.t.Context())
			for _, of := range breeds {
				group.Go("churn", func(ctx context.Context) error {
					for {
						made := &life{park: p, name: of.name, saw: map[string]string{}}
						if err := p.manager.Add(of.name, made.reconciler(of.read), of.options...); err != nil {
							return wantEnd(err)
						}
						pause(ctx, 60)
						if err := p.manager.Remove(ctx, of.name); err != nil {
							return wantEnd(err)
						}
					}
				})
			}
			pause(p.t.Context(), 200)
			p.stop()
			p.must(group.Wait())
		})
	}
}

func wantEnd(err error) error {
	if strings.Contains(err.Error(), "the manager has ended") {
		return nil
	}
	return err
}

// Run this with -race. A controller that is left at the end has read the last version of every
// object. No controller reconciles after its removal, and no watch is left that no controller
// needs.
func TestControllersMayComeAndGoAtAnyTime(t *testing.T) {
	for range 20 {
		inPark(t, func(p *park) {
			p.add("permanent", controller.For(&corev1.Node{}, controller.ClusterScoped()))
			p.run()
			group := lifecycle.New(p.t.Context())
			left := make([]*life, len(breeds))
			for breed := range breeds {
				group.Go("churn", func(ctx context.Context) error {
					left[breed] = p.churn(ctx, breed, 15)
					return nil
				})
			}
			group.Go("write", func(ctx context.Context) error {
				p.write(ctx, 300)
				return nil
			})
			p.must(group.Wait())
			p.calm()
			needed := map[string]bool{"Node": true}
			for breed, life := range left {
				if life == nil {
					continue
				}
				of := breeds[breed]
				for _, kind := range of.watches {
					needed[kind] = true
				}
				if want := p.versions(of.watches[0]); fmt.Sprint(life.saw) != fmt.Sprint(want) {
					p.t.Errorf("%s has seen %v, and there are %v", of.name, life.saw, want)
				}
			}
			if watches := p.server.Counts().Watches; watches != len(needed) || len(p.manager.Cache().Stores()) != len(needed) {
				p.t.Errorf("%d watches are open, and %d kinds are cached, for %v", watches, len(p.manager.Cache().Stores()), needed)
			}
			p.stop()
		})
	}
}
