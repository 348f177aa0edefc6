// Package beside runs Bellerophon and another contender side by side on one local cluster. Each works in a namespace of its own,
// on objects that are created and changed at the same moments. It is a demonstration and no measurement: both share the
// machine, and nothing is repeated. The comparison is bench run.
package beside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen/steps"
	"github.com/bellerophon-io/bellerophon/bench/connection"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

const ours = "bellerophon"

// Options says what runs, and for how long.
type Options struct {
	Peer    string        // the contender beside Bellerophon
	Objects int           // of each: 1 to 1000
	Every   time.Duration // between two changes: 10ms to 1m
	For     time.Duration // 1s to 24h; 0 until the context ends
}

func (o Options) validate() (contender.Contender, error) {
	var none contender.Contender
	found, err := contender.Named(o.Peer)
	if err != nil {
		return none, err
	}
	var able []string
	for _, one := range contender.All() {
		if one.OneNamespace && one.Name != ours {
			able = append(able, one.Name)
		}
	}
	switch {
	case len(found) != 1 || !found[0].OneNamespace || o.Peer == ours:
		return none, fmt.Errorf("%s cannot be restricted to one namespace; these can: %s", o.Peer, strings.Join(able, ", "))
	case o.Objects < 1 || o.Objects > 1000:
		return none, fmt.Errorf("--objects is %d; allowed is 1 to 1000", o.Objects)
	case o.Every < 10*time.Millisecond || o.Every > time.Minute:
		return none, fmt.Errorf("--every is %v; allowed is 10ms to 1m", o.Every)
	case o.For != 0 && (o.For < time.Second || o.For > 24*time.Hour):
		return none, fmt.Errorf("--for is %v; allowed is 1s to 24h, or 0", o.For)
	}
	return found[0], nil
}

// Run runs both until ctx or the time ends, shows them, and returns what it has seen.
func Run(ctx context.Context, options Options, to *screen.Screen, log io.Writer) (sides []Side, err error) {
	peer, err := options.validate()
	if err != nil {
		return nil, err
	}
	us, err := contender.Named(ours)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "beside-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the outputs: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	var running []*side
	for _, one := range []contender.Contender{us[0], peer} {
		to.Live("building " + one.Name)
		program, err := one.Build(ctx, log)
		if err != nil {
			return nil, err
		}
		running = append(running, newSide(program, filepath.Join(folder, one.Name+".log")))
	}
	cluster, err := localcluster.Start(ctx, localcluster.Options{Progress: steps.On(to)})
	to.Live()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if _, err := install.Operator(ctx, cluster.AdminConfig(), install.Options{}); err != nil {
		return nil, connect.Explain(err)
	}
	connected, err := connection.New(cluster.AdminConfig())
	if err != nil {
		return nil, err
	}
	for _, side := range running {
		if _, err := install.MakeNamespace(ctx, cluster.AdminConfig(), side.name); err != nil {
			return nil, connect.Explain(err)
		}
		if err := side.start(ctx, cluster.Kubeconfig()); err != nil {
			return nil, err
		}
		defer func() { _, stopped := side.process.Stop(); err = errors.Join(err, stopped) }()
		to.Println(fmt.Sprintf("%s runs in namespace %s; metrics: %s", side.name, side.name, side.process.MetricsURL()))
		if side.name == ours {
			to.Println("  its page: " + strings.TrimSuffix(side.process.MetricsURL(), "/metrics") + "/page/")
		}
	}
	page, err := newPage(ctx, running)
	if err != nil {
		return nil, err
	}
	to.Println("the page of both: " + page.URL())
	limited, cancel := ctx, context.CancelFunc(func() {})
	if options.For > 0 {
		limited, cancel = context.WithTimeout(ctx, options.For)
	}
	defer cancel()
	group := lifecycle.New(limited)
	for _, side := range running {
		group.Go("watch of "+side.name, func(ctx context.Context) error { return side.watch(ctx, connected) })
	}
	group.Go("load", func(ctx context.Context) error { return load(ctx, connected, running, options) })
	group.Go("page", page.run)
	group.Go("table", func(ctx context.Context) error { return show(ctx, running, to) })
	if err := group.Wait(); err != nil && limited.Err() == nil {
		return nil, err
	}
	to.Live()
	for _, side := range running {
		sides = append(sides, side.now())
	}
	return sides, nil
}

// load creates the objects of all sides, and then changes one object of each side after the other.
func load(ctx context.Context, connected *connection.Connection, sides []*side, options Options) error {
	horses := []string{"pegasus", "arion", "buraq", "tulpar"}
	ticker := time.NewTicker(options.Every)
	defer ticker.Stop()
	for round := 0; ctx.Err() == nil; round++ {
		for i := range options.Objects {
			for _, side := range sides {
				if err := side.set(ctx, connected, fmt.Sprintf("shero-%d", i+1), horses[round%len(horses)], round == 0); err != nil {
					if ctx.Err() != nil {
						return nil
					}
					return err
				}
			}
			if round == 0 {
				continue
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
		}
	}
	return nil
}

// show shows the table once a second.
func show(ctx context.Context, sides []*side, to *screen.Screen) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, side := range sides {
			if ended := side.ended(); ended != nil {
				return ended
			}
		}
		if to.IsLive() {
			var now []Side
			for _, side := range sides {
				now = append(now, side.now())
			}
			to.Live(append(Table(now), "", "Ctrl-C ends and cleans up")...)
		}
	}
}

// Table returns what was seen as a table.
func Table(sides []Side) []string {
	lines := []string{fmt.Sprintf("%-18s %8s %8s %9s %12s %12s %12s %9s %8s", "", "OBJECTS", "READY", "CHANGES", "READY p50", "CHANGE p50", "SLOWEST", "CPU", "MEMORY")}
	for _, s := range sides {
		lines = append(lines, fmt.Sprintf("%-18s %8d %8d %9d %12s %12s %12s %9s %8s", s.Name, s.Objects, s.Ready, s.Changes,
			millis(s.CreatedP50), millis(s.ChangedP50), millis(s.Slowest), fmt.Sprintf("%.1f s", s.CPU), fmt.Sprintf("%.0f MiB", s.Memory)))
	}
	return lines
}

func millis(seconds float64) string {
	if seconds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f ms", 1000*seconds)
}
