package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/outcome"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// pointsOfPage is how many points a line has at most: about two for a pixel.
const pointsOfPage = 1000

// Opened says where a run can be looked at.
type Opened struct {
	Page       string `json:"page"`
	Prometheus string `json:"prometheus"`
}

// Inspect serves a run until ctx ends: its page, and a Prometheus with its time series,
// both on loopback. It calls opened once both answer. When it returns, nothing of it runs
// any more.
func Inspect(ctx context.Context, dir string, opened func(Opened)) error {
	run, rounds, err := read(dir)
	if err != nil {
		return err
	}
	summary := Summarize(run, rounds)
	err = withPrometheus(ctx, dir, func(ctx context.Context, prometheus running) error {
		text := pageText{Summary: summary, Data: dataOf(summary, rounds), Prometheus: prometheus.url}
		var content bytes.Buffer
		if err := text.write(&content); err != nil {
			return err
		}
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("finding a free port for the page: %w", err)
		}
		serving := http.Server{Handler: handler(content.Bytes(), text.Data.Groups, prometheus.querier), ReadHeaderTimeout: time.Minute}
		group := lifecycle.New(ctx)
		group.Go("serving the page", func(context.Context) error {
			if err := serving.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
		group.Go("ending the page", func(ctx context.Context) error {
			<-ctx.Done()
			return serving.Close()
		})
		opened(Opened{"http://" + listener.Addr().String() + "/", prometheus.url + "/graph"})
		return group.Wait()
	})
	if errors.Is(err, errNoSeries) {
		if page := filepath.Join(dir, "report.html"); seriesIn(page) != nil {
			return fmt.Errorf("%w; or open %s, which has the series of one turn", err, page)
		}
		return fmt.Errorf("%w; or see the tables alone, with: go run ./bench report %s", err, dir)
	}
	return err
}

func read(dir string) (outcome.Run, []outcome.Round, error) {
	run, err := outcome.ReadRun(dir)
	if err != nil {
		return run, nil, err
	}
	rounds, err := outcome.ReadRounds(dir)
	return run, rounds, err
}

// handler serves the page and what its scripts ask for.
func handler(content []byte, groups []group, from querier) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(content) // A browser that is gone cannot be told.
	})
	mux.HandleFunc("GET /series", func(w http.ResponseWriter, r *http.Request) {
		at := slices.IndexFunc(groups, func(g group) bool { return g.Key == r.FormValue("group") })
		if at < 0 {
			http.Error(w, "this run has no such scenario and turn", http.StatusNotFound)
			return
		}
		found, err := from.lines(r.Context(), groups[at], r.FormValue("record"), pointsOfPage)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(found)
	})
	return mux
}
