package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bellerophon/logging"
	"github.com/bellerophon-io/bellerophon/bellerophon/operator"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen/steps"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/client-go/rest"
)

// withCluster starts a local cluster with the resource definition and the permissions, calls run,
// and stops the cluster. The context of run ends if the cluster fails.
func withCluster(ctx context.Context, p *progress, run func(ctx context.Context, w *world) error) (err error) {
	log, err := logging.New(p.out, slog.LevelWarn, "text")
	if err != nil {
		return err
	}
	cluster, err := localcluster.Start(ctx, localcluster.Options{Progress: steps.On(p.out), Logger: log})
	p.out.Live()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	group := lifecycle.New(ctx)
	group.Go("local cluster", func(ctx context.Context) error {
		select {
		case <-cluster.Done():
			return cluster.Err()
		case <-ctx.Done():
			return nil
		}
	})
	group.Go("measurement", func(ctx context.Context) error {
		defer group.Stop()
		w, err := newWorld(ctx, cluster.AdminConfig(), p, log)
		if err != nil {
			return connect.Explain(err)
		}
		defer w.driver.Close()
		return run(ctx, w)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// world is a cluster and an operator, which runs between start and stop.
type world struct {
	driver   *driver
	progress *progress
	version  string       // the version of Kubernetes
	account  *rest.Config // the operator's credentials
	log      *slog.Logger

	recorder   *recorder
	operator   *lifecycle.Group
	recordings []recording
}

func newWorld(ctx context.Context, admin *rest.Config, p *progress, log *slog.Logger) (*world, error) {
	w := &world{progress: p, log: log}
	var err error
	if w.version, err = connect.Check(ctx, admin); err != nil {
		return nil, err
	}
	if _, err := install.MakeNamespace(ctx, admin, namespace); err != nil {
		return nil, err
	}
	installed, err := install.Operator(ctx, admin, install.Options{})
	if err != nil {
		return nil, err
	}
	if w.account, err = installed.Config(ctx, admin); err != nil {
		return nil, err
	}
	w.driver, err = newDriver(admin)
	return w, err
}

// start starts the operator with the default options, and records its attempts and levels.
func (w *world) start(ctx context.Context) error {
	recorder := newRecorder()
	manager, err := operator.New(w.account, controller.Options{
		Logger:   w.log,
		OnResult: recorder.result,
	}, operator.Kinds{})
	if err != nil {
		return fmt.Errorf("start the operator: %w", err)
	}
	recorder.loop = manager.Cache().Loop().Duration
	w.recorder, w.operator = recorder, lifecycle.New(ctx)
	w.operator.Go("operator", manager.Run)
	w.operator.Go("level", func(ctx context.Context) error {
		return streams.ForEach(ctx, manager.Cache().Levels(), func(levels []cache.Level) {
			for _, level := range levels {
				recorder.level(level)
			}
		}, func(err error) { w.log.Warn("level: " + err.Error()) })
	})
	return nil
}

// keep saves the recording so far.
func (w *world) keep() {
	w.recordings = append(w.recordings, w.recorder.end(w.driver.versions()))
}

// stop stops the operator if it is running.
func (w *world) stop() error {
	if w.operator == nil {
		return nil
	}
	w.operator.Stop()
	err := w.operator.Wait()
	w.operator = nil
	return err
}
