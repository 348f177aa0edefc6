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

// DefaultPageSize is the page size of kubectl and of client-go's pager. With pages, a start among many
// objects takes little more than half of the process's CPU that it takes with streamed lists, and less
// of the server's.
const DefaultPageSize = 500

// Options configures a [Manager]. The zero value has the defaults, which suit production.
type Options struct {
	Namespaces []string // the namespaces that are watched; default all
	PageSize   int      // objects in a page of a list: 1 to 10000; default 500; negative streams lists: see sources.WatchOptions
	UserAgent  string   // of requests, and the reporter of Events; default "bellerophon"

	// FieldManager is the field manager of writes: the name under which the API server records who set
	// which fields. At most 128 printable characters. By default each controller's name is the one of
	// its writes, so that server-side applies of two controllers do not remove each other's fields; and
	// UserAgent is the one of writes outside of reconciles.
	FieldManager string

	Workers int               // see operators.ReconcileOptions
	Backoff operators.Backoff // after attempts that fail
	Timeout time.Duration     // of one reconcile
	Grace   time.Duration     // for reconciles in flight when Run's context ends
	Window  time.Duration     // see operators.DebounceOptions; default 10 ms; negative for none
	Loop    cache.LoopOptions // how the loop duration is measured, and the quiet period
	Stages  []Stage           // stages of the user, between the debounce and the cache, in this order

	// MaxStaleness is how long a version counts as current after the server has confirmed it: see
	// cache.Current. 1 s to 24 h; default 90 s, which suits servers that send a bookmark a minute;
	// negative for no bound. A watch that confirms nothing for three quarters of MaxStaleness is
	// probed by a request. That is about 54 requests an hour for each kind if the server sends no
	// bookmarks, and none if it sends one a minute.
	MaxStaleness time.Duration

	// The addresses of the HTTP servers, as "host:port"; port 0 stands for a free port. An empty
	// address starts no server. Clients of the profile server can read memory of the process.
	MetricsAddress string // serves /metrics
	HealthAddress  string // serves /healthz, which fails if requests are due and nothing moves, and /readyz
	ProfileAddress string // serves /debug/pprof/

	Registry *prometheus.Registry // where metrics are registered; default a new one

	// DetectMutations is for tests. With it, a reconcile during which an object of the cache was
	// changed fails with an error that names the object and the change. It costs memory and time.
	DetectMutations bool

	Logger *slog.Logger // default slog.Default()

	// OnResult is called for each result, and OnError for each failure of a source or map function.
	// Both are called from the same goroutine and must be fast. By default failures are logged.
	OnResult func(result operators.Result)
	OnListen func(server string, address net.Addr) // called for each server that listens, before it serves
	OnError  func(err error)
}

// withDefaults fills in the defaults, and returns an error for an option that is out of its range.
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
	if o.Timeout == 0 {
		o.Timeout = operators.DefaultTimeout
	}
	return o, nil
}
