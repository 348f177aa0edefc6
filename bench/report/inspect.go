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

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

// pointsOfPage bounds the points of a line: about two per pixel.
const pointsOfPage = 1000

// Opened has the addresses at which a run can be viewed.
type Opened struct {
	Page       string `json:"page"`
	Prometheus string `json:"prometheus"`
	Graphs     string `json:"graphs"`    // leads to ten panels in Prometheus, at the time of a turn
	Dashboard  string `json:"dashboard"` // the file to import into Grafana
}

// Inspect serves the page of a run and a Prometheus with its time series on loopback until ctx
// ends. The Prometheus has the complete data of the run, or else the series that the run keeps.
// Inspect calls opened once both answer. When Inspect returns, both are stopped.
func Inspect(ctx context.Context, dir string, opened func(Opened)) error {
	run, rounds, err := read(dir)
	if err != nil {
		return err
	}
	summary := Summarize(run, rounds)
	text := pageText{Summary: summary, Data: dataOf(summary, rounds)}
	from, err := dataIn(dir, text.Data.Groups)
	if err == nil {
		text.Data.Groups = from.groups
		err = withPrometheus(ctx, from, func(ctx context.Context, prometheus running) error { return serve(ctx, text, prometheus, opened) })
	}
	if errors.Is(err, errNoSeries) {
		parts := "the tables"
		if kept, readErr := readText(dir); readErr == nil && kept != nil {
			parts = "the tables and the time series of one turn"
		}
		return fmt.Errorf("%w; or open %s, which has %s after: go run ./bench report %s", err, filepath.Join(dir, "report.html"), parts, dir)
	}
	return err
}

// serve serves a page, and what its scripts request, until ctx ends.
func serve(ctx context.Context, text pageText, prometheus running, opened func(Opened)) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("find a free port for the page: %w", err)
	}
	defer listener.Close()
	at := "http://" + listener.Addr().String() + "/"
	text.Prometheus = at + "graphs"
	var content, dashboard bytes.Buffer
	if err := errors.Join(text.write(&content), writeDashboard(&dashboard, text.Summary.Run, text.Data)); err != nil {
		return err
	}
	serving := http.Server{Handler: handler(content.Bytes(), dashboard.Bytes(), text.Data.Groups, prometheus), ReadHeaderTimeout: time.Minute}
	group := lifecycle.New(ctx)
	group.Go("serve the page", func(context.Context) error {
		if err := serving.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go("stop the page", func(ctx context.Context) error {
		<-ctx.Done()
		return serving.Close()
	})
	opened(Opened{at, prometheus.url, text.Prometheus, at + DashboardFile})
	return group.Wait()
}

// read reads the description and the rounds of a run.
func read(dir string) (rundir.Run, []rundir.Round, error) {
	run, err := rundir.ReadRun(dir)
	if err != nil {
		return run, nil, err
	}
	rounds, err := rundir.ReadRounds(dir)
	return run, rounds, err
}

// handler serves the page and the series that its scripts request.
func handler(content, dashboard []byte, groups []group, from running) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /"+DashboardFile, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(dashboard)
	})
	mux.HandleFunc("GET /graphs", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, from.url+"/graph?"+graphs(groups), http.StatusFound)
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(content) // A browser that closed the connection cannot get an error.
	})
	mux.HandleFunc("GET /series", func(w http.ResponseWriter, r *http.Request) {
		at := slices.IndexFunc(groups, func(g group) bool { return g.Key == r.FormValue("group") })
		if at < 0 {
			http.Error(w, "find the series: this run has no such scenario and turn", http.StatusNotFound)
			return
		}
		found, err := from.querier.lines(r.Context(), groups[at], r.FormValue("record"), pointsOfPage)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(found)
	})
	return mux
}
