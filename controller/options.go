package controller

import (
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/prometheus/client_golang/prometheus"
)

// DefaultPageSize is that of kubectl and of client-go's pager. A start among many objects takes little
// more than half of the CPU here that lists take which are streamed, and less of the server's.
const DefaultPageSize = 500

// Options set up a [Manager]. The zero value has the defaults, which suit production.
type Options struct {
	Namespaces []string // watch these only; default all
	PageSize   int      // objects in a page of a list; default 500; negative streams lists: see sources.WatchOptions
	UserAgent  string   // default "bellerophon"

	Workers int               // see operators.ReconcileOptions
	Backoff operators.Backoff // between attempts that fail
	Timeout time.Duration     // of one reconcile
	Grace   time.Duration     // for reconciles in flight at the end
	Window  time.Duration     // see operators.DebounceOptions; default 10 ms; negative for none
	Loop    cache.LoopOptions // how the loop duration is measured, and what counts as calm
	Stages  []Stage           // of your own, between the debounce and the cache, in this order

	// MaxStaleness is how long ago the server may have confirmed a version for it to count as
	// current: see cache.Current. 1 s to 24 h; default 90 s, which suits servers that send a
	// bookmark a minute; negative for no bound. A watch that confirms nothing for three quarters
	// of it is probed by a request: about 54 an hour for each kind of a server that sends no
	// bookmarks, and none of one that does.
	MaxStaleness time.Duration

	MetricsAddress string               // of the HTTP server with /metrics; "host:port", port 0 for a free one; default none
	HealthAddress  string               // of the HTTP server with /healthz and /readyz; likewise
	ProfileAddress string               // of the HTTP server with /debug/pprof/; likewise; who reaches it reads memory of the process
	Registry       *prometheus.Registry // where metrics are registered; default a new one

	// DetectMutations is for tests: a reconcile during which an object of the cache was
	// changed fails, with an error that says which and how. It costs memory and time.
	DetectMutations bool

	Logger   *slog.Logger                          // default slog's
	OnResult func(result operators.Result)         // called for each result, from one goroutine; it must be fast
	OnListen func(server string, address net.Addr) // called for each server that listens, before it serves
	OnError  func(err error)                       // called for each failure of a source, likewise; default logs it
}

func (o Options) withDefaults() (Options, error) {
	if o.UserAgent == "" {
		o.UserAgent = "bellerophon"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	switch {
	case o.PageSize == 0:
		o.PageSize = DefaultPageSize
	case o.PageSize < 0:
		o.PageSize = 0
	}
	switch {
	case o.Window == 0:
		o.Window = operators.DefaultWindow
	case o.Window < 0:
		o.Window = 0
	}
	switch {
	case o.MaxStaleness == 0:
		o.MaxStaleness = sources.DefaultMaxStaleness
	case o.MaxStaleness < 0:
		o.MaxStaleness = 0
	}
	if o.PageSize > sources.MaxPageSize {
		return o, fmt.Errorf("manager: PageSize is %d; allowed is 1 to %d, or negative to stream lists", o.PageSize, sources.MaxPageSize)
	}
	if err := (sources.WatchOptions{Namespaces: o.Namespaces, MaxStaleness: o.MaxStaleness}).Validate(); err != nil {
		return o, fmt.Errorf("manager: %w", err)
	}
	if err := (operators.DebounceOptions{Window: o.Window}).Validate(); err != nil {
		return o, fmt.Errorf("manager: %w", err)
	}
	pool := operators.ReconcileOptions{Workers: o.Workers, Backoff: o.Backoff, Timeout: o.Timeout, Grace: o.Grace}
	if err := pool.Validate(); err != nil {
		return o, fmt.Errorf("manager: %w", err)
	}
	if o.Workers == 0 {
		o.Workers = operators.DefaultWorkers
	}
	return o, nil
}
