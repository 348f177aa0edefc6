package compat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// Setup returns the setup for a replay of a program that uses [NewManager]: see package controller/replaytest,
// [controller.Replay] and [controller.Shadow]. program creates the manager and adds the controllers, and the caller of
// program starts the manager. So one function serves the program and its replay. It must use the configuration and the
// options that it gets.
//
// In a replay, the manager opens no port, elects no leader, logs nothing and sends no Events. Only the reconcilers of its
// controllers run, and no other runnables. The sources of the controllers are started, so that their kinds become
// known, and are stopped at once.
func Setup(program func(config *rest.Config, ours controller.Options) (*Manager, error)) controller.Setup {
	return func(config *rest.Config, ours controller.Options) (*controller.Manager, error) {
		switch {
		case program == nil:
			return nil, errors.New("compat.Setup has no function; give the one that creates the program's manager")
		case !controller.IsReplay(config):
			return nil, fmt.Errorf("compat.Setup is for replays, and the configuration leads to %s; to run the program, call Start of its manager", config.Host)
		}
		made, err := program(config, ours)
		switch {
		case err != nil:
			return nil, err
		case made == nil:
			return nil, errors.New("the function of compat.Setup returned no manager and no error; return the manager that it has created")
		case made.replay == nil || made.replay.of != config.Transport:
			return nil, errors.New("the function of compat.Setup returned a manager with another configuration; create the manager with the one that the function gets")
		}
		if err := made.replay.join(); err != nil {
			return nil, err
		}
		return made.bellerophon, nil
	}
}

// replay is what a manager for a replay does otherwise.
type replay struct {
	of http.RoundTripper // leads to the recording

	mu      sync.Mutex
	members []*member
}

// errReplayed is the error of Start for a manager of a replay.
var errReplayed = errors.New("the manager is for a replay, which cannot start it; return it from the function of compat.Setup, and start it only in the program")

// Start runs the manager until ctx ends.
func (m *Manager) Start(ctx context.Context) error {
	if m.replay != nil {
		return errReplayed
	}
	return m.Manager.Start(ctx)
}

// GetEventRecorderFor returns a recorder of Events. In a replay, it drops them.
func (m *Manager) GetEventRecorderFor(name string) record.EventRecorder {
	if m.replay != nil {
		return &record.FakeRecorder{}
	}
	return m.Manager.GetEventRecorderFor(name) //nolint:staticcheck // Programs still use it.
}

// GetEventRecorder returns a recorder of Events. In a replay, it drops them.
func (m *Manager) GetEventRecorder(name string) recorder.EventRecorder {
	if m.replay != nil {
		return &events.FakeRecorder{}
	}
	return m.Manager.GetEventRecorder(name)
}

// forReplay returns options without what reaches out of the process. Replays set up one program many times.
func forReplay(theirs manager.Options) manager.Options {
	theirs.Logger = logr.New(log.NullLogSink{})
	theirs.Metrics = metricsserver.Options{BindAddress: "0"}
	theirs.HealthProbeBindAddress, theirs.PprofBindAddress = "0", "0"
	theirs.LeaderElection, theirs.LeaderElectionConfig = false, nil
	theirs.Controller.Logger, theirs.Controller.SkipNameValidation = theirs.Logger, new(true)
	return theirs
}

func (r *replay) add(added *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members = append(r.members, added)
}

// join adds the controllers to Bellerophon's manager.
func (r *replay) join() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.members) == 0 {
		return errors.New("the manager of compat.Setup has no controllers; add them in the function that creates it")
	}
	for _, added := range r.members {
		if err := added.joinForReplay(); err != nil {
			return fmt.Errorf("adding controller %q: %w", added.name, err)
		}
	}
	return nil
}

// joinForReplay starts the sources of the controller, adds it to Bellerophon's manager, and stops the sources.
func (m *member) joinForReplay() error {
	group := lifecycle.New(context.WithValue(context.Background(), memberKey{}, m))
	group.Go("sources of "+m.name, m.controller.Start)
	var err error
	select {
	case <-m.ready:
		err = m.join()
	case err = <-m.unknown:
	case <-group.Context().Done(): // A source has failed.
	}
	group.Stop()
	return errors.Join(err, group.Wait())
}

// cannotWatch notes why a kind cannot be watched. The source tries again, which is of no use in a replay.
func (m *member) cannotWatch(err error) {
	if m == nil {
		return
	}
	select {
	case m.unknown <- err:
	default: // Nothing reads it: the manager runs, or another kind is unknown, too.
	}
}

// mapperOf returns a provider of a mapper whose requests are recorded. by may be nil.
func (m *Manager) mapperOf(by func(*rest.Config, *http.Client) (meta.RESTMapper, error)) func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	if by == nil {
		by = apiutil.NewDynamicRESTMapper
	}
	return func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
		made, err := by(m.bellerophon.Connection())
		if err != nil || m.replay == nil {
			return made, err
		}
		return guessing{made, m.bellerophon}, nil
	}
}

// guessing is a mapper for a replay. A recording of a program that is not ported has no list of groups. Then the kinds have the
// places that they have for Bellerophon's own controllers.
type guessing struct {
	meta.RESTMapper
	manager *controller.Manager
}

// RESTMapping returns the place of a kind.
func (g guessing) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	found, err := g.RESTMapper.RESTMapping(kind, versions...)
	if err == nil || len(versions) != 1 {
		return found, err
	}
	as := kind.WithVersion(versions[0])
	located, err := sources.KindOf(g.manager.Scheme(), &unstructured.Unstructured{}, sources.OfKind(as))
	if err != nil {
		return nil, err
	}
	asks, err := located.Client(g.manager.Connection())
	if err != nil {
		return nil, err
	}
	_ = located.Locate(context.Background(), asks) // Without an answer in the recording, its assumptions remain.
	made := &meta.RESTMapping{Resource: as.GroupVersion().WithResource(located.Resource()), GroupVersionKind: as, Scope: meta.RESTScopeNamespace}
	if !located.Namespaced() {
		made.Scope = meta.RESTScopeRoot
	}
	return made, nil
}
