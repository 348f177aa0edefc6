package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/page"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// shutdownGrace is how long requests in flight may take after ctx has ended.
const shutdownGrace = 2 * time.Second

// maxHeader bounds the size of a request's header. Tokens of clusters have one to a few kB.
const maxHeader = 64 << 10

// server is an HTTP server of the manager.
type server struct {
	name        string
	listener    net.Listener
	log         *slog.Logger
	handler     http.Handler
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error) // nil for plain HTTP
	asksClients bool                                                 // for certificates, which the guard verifies
}

// listen opens the listeners of the manager's addresses. If one fails, listen closes the others.
func (m *Manager) listen(ctx context.Context) ([]*server, error) {
	metrics := http.NewServeMux()
	metrics.HandleFunc("GET /debug/manager", m.introspect)
	metrics.HandleFunc("GET /debug/tree", m.tree)
	metrics.HandleFunc("GET /debug/recording", m.serveRecording)
	metrics.Handle("GET /metrics", promhttp.HandlerFor(m.options.Registry, promhttp.HandlerOpts{
		Registry: m.options.Registry, EnableOpenMetrics: true,
		DisableCompression: true, // The page is some 20 KB. A compressor holds a megabyte, and takes more CPU time than the page.
	}))
	if m.history != nil {
		metrics.HandleFunc("GET /debug/why", m.why)
	}
	shown, err := page.New(page.Manager{Events: m.Events(), Changes: m.Changes(), Results: m.Results(), Levels: m.Levels(), State: func() any { return m.introspection(mostSlow) }, Context: m.context})
	if err != nil {
		return nil, err
	}
	metrics.Handle("GET "+page.Root, shown)
	if recorded := m.options.Recording; recorded != nil {
		metrics.Handle("GET "+page.PastRoot, page.NewPast(recorded.Dir, m.scheme, true))
	}
	health := http.NewServeMux()
	health.HandleFunc("GET /healthz", m.alive)
	health.HandleFunc("GET /readyz", m.ready)
	profile := http.NewServeMux()
	profile.HandleFunc("GET /debug/pprof/", pprof.Index)
	profile.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	profile.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	profile.HandleFunc("GET /debug/manager", m.introspect)
	var servers []*server
	for _, wanted := range []struct {
		option, address string
		made            *server
	}{
		{"MetricsAddress", m.options.MetricsAddress, m.guard.server("metrics server", metrics)},
		{"HealthAddress", m.options.HealthAddress, &server{name: "health server", handler: health}},
		{"ProfileAddress", m.options.ProfileAddress, m.guard.server("profile server", profile)},
	} {
		if wanted.address == "" {
			continue
		}
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", wanted.address)
		if err != nil {
			for _, server := range servers {
				_ = server.listener.Close() // Nothing was served yet, so nothing is lost.
			}
			return nil, fmt.Errorf("%s cannot listen on %s; choose another one, or port 0 for any free one: %w",
				wanted.option, wanted.address, err)
		}
		if local, _ := isLoopback(listener.Addr().String()); local && m.guard == nil {
			wanted.made.handler = onlyByAddress(wanted.made.handler)
		}
		wanted.made.listener, wanted.made.log = listener, m.log
		servers = append(servers, wanted.made)
		if m.options.OnListen != nil {
			m.options.OnListen(wanted.made.name, listener.Addr())
		}
	}
	return servers, nil
}

// alive answers whether the manager works. It does not if requests of a controller are due and nothing
// of the controller moves: its attempts have outlasted twice their timeout, and so ignore their contexts.
// Only a restart helps then. It does not either if the work of a lost Lease does not end. Outages of the API server, errors and backoffs leave the manager alive.
func (m *Manager) alive(w http.ResponseWriter, _ *http.Request) {
	if wedged := append(m.wedged(), m.leader.unended()...); len(wedged) > 0 {
		http.Error(w, strings.Join(wedged, "\n"), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// wedged describes the controllers whose attempts do not move although requests are due.
func (m *Manager) wedged() (descriptions []string) {
	for name, member := range m.present.Load().members {
		due := member.controller.Stats.Waiting.Load() - member.controller.Stats.Held.Load()
		timeout := m.options.Timeout
		if member.controller.Timeout > 0 {
			timeout = member.controller.Timeout
		}
		if request, since, stuck := member.attempts.stuck(2 * timeout); stuck && due > 0 {
			descriptions = append(descriptions, fmt.Sprintf("controller %s: %d requests are due, and nothing moves; the reconcile of %s has run for %v, its timeout is %v",
				name, due, request.NamespacedName, since.Round(time.Second), timeout))
		}
	}
	slices.Sort(descriptions)
	return descriptions
}

// ready answers whether the cache has reached the level of the query, such as level=Settled, and what
// is missing. Without a query, the level is Listed: the first lists are complete. The answer also
// names kinds that do not count and keys that fail.
func (m *Manager) ready(w http.ResponseWriter, request *http.Request) {
	wanted := cache.Listed
	if name := request.URL.Query().Get("level"); name != "" {
		if err := wanted.UnmarshalText([]byte(name)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	level := m.cache.Level()
	notes := m.notes()
	if level >= wanted || wanted <= cache.OwnWritesVisible && m.needsNoKinds() {
		fmt.Fprintln(w, "ok:", level)
		for _, note := range notes {
			fmt.Fprintln(w, note)
		}
		return
	}
	waits := "not ready: the level is " + level.String() + ", not " + wanted.String()
	switch pending := strings.Join(m.cache.Pending(wanted), ", "); {
	case wanted == cache.Listed:
		waits = "not ready: waiting for the first list of " + pending
	case pending != "":
		waits += "; waiting for " + pending
	}
	http.Error(w, strings.Join(append([]string{waits}, notes...), "\n"), http.StatusServiceUnavailable)
}

// needsNoKinds reports whether there are controllers, and none of them has a kind. The level is Starting then.
func (m *Manager) needsNoKinds() bool {
	return len(m.present.Load().members) > 0 && len(m.cache.Stores()) == 0
}

// bodiless bounds the time of a body, which no request here needs. net/http reads it before it answers, and it may never
// come.
func bodiless(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(5 * time.Second)) // All connections have one.
		}
		handler.ServeHTTP(w, request)
	})
}

// run serves until ctx ends. Requests in flight may then take shutdownGrace.
func (s *server) run(ctx context.Context) error {
	serving := &http.Server{
		Handler: bodiless(s.handler), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // A port scan makes an error for each handshake.
	}
	serve := serving.Serve
	if s.certificate != nil {
		// A scrape gains nothing from HTTP/2, and clients can misuse its streams.
		serving.Protocols = new(http.Protocols)
		serving.Protocols.SetHTTP1(true)
		serving.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate}
		if s.asksClients {
			serving.TLSConfig.ClientAuth = tls.RequestClientCert // Not verified here, so that a client with a token may present any.
		}
		serve = func(listener net.Listener) error { return serving.ServeTLS(listener, "", "") }
	}
	group := lifecycle.New(ctx)
	group.Go("stop", func(ctx context.Context) error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		if serving.Shutdown(grace) != nil {
			return serving.Close()
		}
		return nil
	})
	err := serve(s.listener)
	group.Stop()
	if stopErr := group.Wait(); stopErr != nil {
		return stopErr
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving on %s: %w", s.listener.Addr(), err)
}
