// Command process runs the ideal client of package ideal as a contender of the
// comparison, with the environment of bench/contract.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bench/connection"
	"github.com/bellerophon-io/bellerophon/bench/ideal"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// defaultWorkers is the number of objects that are written at once if WORKERS is not set. With
// half as many, a burst takes longer, because the load creates its objects at the same time.
const defaultWorkers = 32

// untold is how long the contract always lets an object be unfinished without a status that says so.
const untold = time.Second

func main() {
	progress := flag.Bool("progress", false, "write a progressing status for each object that is not finished after as long as the contract allows")
	http1 := flag.Bool("http1", false, "use HTTP/1.1, with a connection for each request in flight, instead of one HTTP/2 connection")
	flag.Parse()
	after := time.Duration(0)
	if *progress {
		after = untold
	}
	if err := run(after, *http1); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(progress time.Duration, http1 bool) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	workers := defaultWorkers
	if text := os.Getenv("WORKERS"); text != "" {
		if workers, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("WORKERS is %q; give a number", text)
		}
	}
	config, err := connect.Config("")
	if err != nil {
		return err
	}
	if http1 {
		if config, err = connection.HTTP1(config); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", os.Getenv("METRICS_PORT")))
	if err != nil {
		return fmt.Errorf("listen on METRICS_PORT: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	group := lifecycle.New(ctx)
	group.Go("metrics", func(context.Context) error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go("client", func(ctx context.Context) error {
		err := ideal.Run(ctx, config, workers, progress, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		return errors.Join(err, server.Close())
	})
	return group.Wait()
}
