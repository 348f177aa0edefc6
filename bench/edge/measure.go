package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bellerophon/logging"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen/steps"
	"github.com/bellerophon-io/bellerophon/bench/connection"
	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience is how long the operator may take to repair what is pending. Two intervals of polling come in addition.
const patience = time.Minute

// world is a cluster with the load, and the operator's credentials.
type world struct {
	settings Settings
	admin    *rest.Config
	account  *rest.Config
	load     *load
	log      *slog.Logger
	out      *screen.Screen
}

// measure starts a local cluster and measures all cells.
func measure(ctx context.Context, settings Settings, note string, out *screen.Screen) (result Result, err error) {
	log, err := logging.New(out, slog.LevelWarn, "text")
	if err != nil {
		return result, err
	}
	result = Result{Started: time.Now().UTC().Truncate(time.Second), Machine: scenario.Machine(), Note: note, Settings: settings}
	cluster, err := localcluster.Start(ctx, localcluster.Options{Progress: steps.On(out), Logger: log})
	out.Live()
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	w := &world{settings: settings, admin: cluster.AdminConfig(), log: log, out: out}
	if result.Kubernetes, err = w.prepare(ctx); err != nil {
		return result, connect.Explain(err)
	}
	defer w.load.Close()
	group := lifecycle.New(ctx)
	group.Go("watch", w.load.watch)
	group.Go("cells", func(ctx context.Context) error {
		defer group.Stop()
		if err := w.load.create(ctx); err != nil {
			return err
		}
		cells := settings.cells()
		for i, cell := range cells {
			out.Live(fmt.Sprintf("cell %d of %d: %s", i+1, len(cells), cell.name()))
			if err := w.cell(ctx, &cell); err != nil {
				return fmt.Errorf("measure %s: %w", cell.name(), err)
			}
			result.Cells = append(result.Cells, cell)
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return result, err
	}
	out.Live()
	return result, context.Cause(ctx)
}

// prepare installs what the operator needs, and returns the version of the cluster.
func (w *world) prepare(ctx context.Context) (version string, err error) {
	if version, err = connect.Check(ctx, w.admin); err != nil {
		return "", err
	}
	if _, err := install.MakeNamespace(ctx, w.admin, namespace); err != nil {
		return "", err
	}
	installed, err := install.Operator(ctx, w.admin, install.Options{})
	if err != nil {
		return "", err
	}
	if w.account, err = installed.Config(ctx, w.admin); err != nil {
		return "", err
	}
	connected, err := connection.New(w.admin)
	if err != nil {
		return "", err
	}
	w.load = newLoad(connected, w.settings.Objects)
	return version, nil
}

// cell measures one cell with an operator and a proxy of its own.
func (w *world) cell(ctx context.Context, cell *Cell) (err error) {
	through, err := proxy.New(w.admin, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, through.Close()) }()
	config, err := w.through(through)
	if err != nil {
		return err
	}
	group := lifecycle.New(ctx)
	group.Go("operator", func(ctx context.Context) error {
		if cell.Form == polling {
			return byPolling(ctx, config, *cell, w.settings)
		}
		return byEvents(ctx, config, *cell, w.settings, controller.Options{Logger: w.log})
	})
	group.Go("load", func(ctx context.Context) error {
		defer group.Stop()
		return w.windows(ctx, cell, through)
	})
	return group.Wait()
}

// windows measures a window without changes, and then one with changes.
func (w *world) windows(ctx context.Context, cell *Cell, through *proxy.Proxy) error {
	if err := w.load.change(ctx); err != nil { // Its repair shows that the operator works.
		return err
	}
	if err := w.repaired(ctx, cell); err != nil {
		return err
	}
	w.load.take()
	from := time.Now()
	if err := lifecycle.Pause(ctx, max(w.settings.Idle, 2*cell.Interval)); err != nil {
		return err
	}
	cell.Idle = trafficIn(through.Record(), from, time.Now())
	from = time.Now()
	if err := w.load.run(ctx, w.settings.Rate, max(w.settings.Load, 2*cell.Interval)); err != nil {
		return err
	}
	to := time.Now()
	if err := w.repaired(ctx, cell); err != nil {
		return err
	}
	cell.Load = trafficIn(through.Record(), from, to)
	cell.react(w.load.take())
	return nil
}

// repaired waits until no change is pending.
func (w *world) repaired(ctx context.Context, cell *Cell) error {
	ctx, cancel := context.WithTimeout(ctx, patience+2*cell.Interval)
	defer cancel()
	return w.load.until(ctx, 0)
}

// through returns the operator's credentials for the address of a proxy.
func (w *world) through(p *proxy.Proxy) (config *rest.Config, err error) {
	dir, err := os.MkdirTemp("", "edge-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the address of the proxy: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "kubeconfig")
	if err := p.WriteKubeconfig(file, ""); err != nil {
		return nil, err
	}
	address, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, fmt.Errorf("read the address of the proxy: %w", err)
	}
	config = rest.CopyConfig(w.account)
	config.Host, config.TLSClientConfig = address.Host, address.TLSClientConfig
	config.QPS = -1
	return config, nil
}

// duration returns about how long the cells take.
func (s Settings) duration() (all time.Duration) {
	for _, cell := range s.cells() {
		all += max(s.Idle, 2*cell.Interval) + max(s.Load, 2*cell.Interval) + 2*cell.Interval + time.Second
	}
	return all
}
