package report

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/bellerophon-io/bellerophon/internal/promserver"
	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// errNoSeries is the error of a machine without Prometheus, or of a run without its data. Errors
// that wrap it name a way out.
var errNoSeries = errors.New("no time series")

// running is a running Prometheus.
type running struct {
	url     string
	querier querier
}

// withPrometheus starts a Prometheus on a copy of some data, on loopback, and calls a function with it
// unless ctx ends first. When withPrometheus returns, the process and the copy are gone.
func withPrometheus(ctx context.Context, from data, use func(context.Context, running) error) (err error) {
	if _, err := find("prometheus"); err != nil {
		return err
	}
	own, err := os.MkdirTemp("", "bellerophon-inspect-")
	if err != nil {
		return fmt.Errorf("make a folder for a Prometheus: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	if err := from.copyTo(ctx, filepath.Join(own, "data")); err != nil {
		return err
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	return promserver.Run(ctx, promserver.Options{
		Files:     map[string][]byte{"prometheus.yml": []byte("# There are no targets: the run is over.\n")},
		Parent:    own,
		Data:      filepath.Join(own, "data"),
		Arguments: []string{"--storage.tsdb.retention.time=10y", "--query.lookback-delta=" + from.lookback.String()},
	}, func(ctx context.Context, started promserver.Running) error {
		client, err := api.NewClient(api.Config{Address: started.URL, RoundTripper: transport})
		if err != nil {
			return fmt.Errorf("create a client of Prometheus: %w", err)
		}
		return use(ctx, running{started.URL, querier{v1.NewAPI(client), from.query}})
	})
}

// find finds a program of Prometheus on the PATH.
func find(program string) (string, error) {
	path, err := promserver.Find(program)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoSeries, err)
	}
	return path, nil
}
