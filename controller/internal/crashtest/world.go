package crashtest

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"k8s.io/apimachinery/pkg/runtime"
)

// World is a fake API server in virtual time, with one manager at a time. The manager may be replaced by
// another one, as a process by the next.
type World struct {
	T      *testing.T
	Server *sourcestest.Server
	Client *Client // of the manager that was started last

	scheme *runtime.Scheme
	group  *lifecycle.Group
}

// InWorld calls test with a new world, in virtual time.
func InWorld(t *testing.T, scheme *runtime.Scheme, test func(w *World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &World{T: t, scheme: scheme}
		var err error
		w.Server, err = sourcestest.New(sourcestest.Options{Scheme: scheme})
		w.Must(err)
		test(w)
		w.Stop()
	})
}

// Must ends the test if err is not nil.
func (w *World) Must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Start runs a manager to which add adds controllers, and waits for a minute. stopAt and after stop its
// client at a write, if stopAt is not 0: see [Client.StopAt]. onWrite is Client.OnWrite, or nil.
func (w *World) Start(stopAt int, after bool, onWrite func(method, path string), add func(manager *controller.Manager)) {
	w.T.Helper()
	client, config := New(w.Server.Config())
	client.OnWrite = onWrite
	if w.Client = client; stopAt > 0 {
		client.StopAt(stopAt, after)
	}
	manager, err := controller.NewManager(config, w.scheme, controller.Options{
		Logger: slog.New(slog.DiscardHandler), OnError: func(error) {}, Grace: time.Millisecond, DetectMutations: true,
	})
	w.Must(err)
	add(manager)
	w.group = lifecycle.New(w.T.Context())
	w.group.Go("manager", manager.Run)
	w.Wait(time.Minute)
}

// Stop ends the manager, if one runs.
func (w *World) Stop() {
	w.T.Helper()
	if w.group == nil {
		return
	}
	w.group.Stop()
	if err := w.group.Wait(); err != nil && !errors.Is(err, ErrStopped) {
		w.T.Error(err)
	}
	w.group = nil
}

// Wait lets virtual time pass.
func (w *World) Wait(duration time.Duration) {
	<-time.After(duration)
	synctest.Wait()
}
