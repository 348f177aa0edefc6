package beside

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

//go:embed page
var pageFiles embed.FS

// policy lets the page load its own files and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	pagePause = 250 * time.Millisecond // between two snapshots
	pageGrace = 10 * time.Second       // for a browser that does not read
)

// snapshot is what a browser gets.
type snapshot struct {
	Sides []shown `json:"sides"`
}

// shown is a side with the changes that became Ready since the last snapshot.
type shown struct {
	Side
	Done []done `json:"done"`
}

// pageServer serves the page with both contenders on the loopback interface.
type pageServer struct {
	listener net.Listener
	sides    []*side
}

func newPage(ctx context.Context, sides []*side) (*pageServer, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the page: %w", err)
	}
	return &pageServer{listener, sides}, nil
}

// URL returns the address of the page.
func (p *pageServer) URL() string { return "http://" + p.listener.Addr().String() + "/" }

// run serves until ctx ends.
func (p *pageServer) run(ctx context.Context) error {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		return err
	}
	handler := http.NewServeMux()
	handler.Handle("GET /", http.FileServerFS(files))
	handler.HandleFunc("GET /events", func(w http.ResponseWriter, request *http.Request) { p.events(ctx, w, request) })
	serving := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if at, err := netip.ParseAddrPort(request.Host); err != nil || !at.Addr().IsLoopback() { // The name of another site leads here.
			http.Error(w, "open the page by its address, "+p.URL(), http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		handler.ServeHTTP(w, request)
	})}
	group := lifecycle.New(ctx)
	group.Go("stop", func(ctx context.Context) error {
		<-ctx.Done()
		return serving.Close()
	})
	err = serving.Serve(p.listener)
	group.Stop()
	if stopped := group.Wait(); stopped != nil {
		return stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving the page: %w", err)
}

// events sends snapshots as server-sent events until the browser or the page ends.
func (p *pageServer) events(ctx context.Context, w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	ticker := time.NewTicker(pagePause)
	defer ticker.Stop()
	sent := make([]int, len(p.sides))
	for i, side := range p.sides {
		_, sent[i] = side.since(0)
	}
	for {
		made := snapshot{}
		for i, side := range p.sides {
			one := shown{Side: side.now()}
			one.Done, sent[i] = side.since(sent[i])
			made.Sides = append(made.Sides, one)
		}
		encoded, err := json.Marshal(made)
		if err != nil {
			return
		}
		if err := control.SetWriteDeadline(time.Now().Add(pageGrace)); err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", encoded); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		case <-request.Context().Done():
			return
		}
	}
}
