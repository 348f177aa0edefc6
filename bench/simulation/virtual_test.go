package simulation

import (
	"context"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
)

// history is the number of events over which a list in pages stays valid: a real API server keeps five minutes.
const history = 100_000

// objectBytes is the size of an object in a page, as cells with caches measure it.
const objectBytes = 978

// newVirtual returns a world over a fake API server with the objects of a cell. It must be called in a bubble of
// testing/synctest.
func newVirtual(ctx context.Context, of Cell, show func(string), seed func(replica int)) (*world, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme, ManagedFields: true, History: history})
	if err != nil {
		return nil, err
	}
	config := server.Config()
	clients, err := newClients(config)
	if err != nil {
		return nil, err
	}
	w := &world{config: config, full: int64(of.Objects) * objectBytes, settle: synctest.Wait, change: clients.change, show: show, seed: seed}
	if of.Caches == None {
		w.change = func(context.Context, int, int, bool) error { return nil }
		return w, nil
	}
	objects := of.Objects
	for number := range objects / 2 {
		if number%100_000 == 0 {
			show(fmt.Sprintf("%d objects: creating %d", objects, 2*number))
		}
		made := newShip(number)
		if err := server.Create(made); err != nil {
			return nil, err
		}
		if err := server.Create(newSail(made)); err != nil {
			return nil, err
		}
	}
	w.full, err = clients.readAll(ctx)
	return w, err
}

// simulate runs cells that have the same number of objects, one after another, and passes on their results. It must
// be called in a bubble of testing/synctest.
func simulate(ctx context.Context, cells []Cell, show func(string), seed func(replica int), put func(Result) error) error {
	w, err := newVirtual(ctx, cells[0], show, seed)
	if err != nil {
		return err
	}
	for _, cell := range cells {
		// Timers that were stopped keep the caches of the last cell in memory until they would have fired.
		if err := w.pass(ctx, 3*time.Hour); err != nil {
			return err
		}
		result, err := w.run(ctx, cell)
		if err != nil {
			return err
		}
		if err := put(result); err != nil {
			return err
		}
	}
	return nil
}
