package controller

import (
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/internal/loglimit"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/prometheus/client_golang/prometheus"
)

// DefaultPageSize is the page size of kubectl and of client-go's pager. With pages, a start among many
// objects takes little more than half of the process's CPU that it takes with streamed lists. It takes
// less of the server's CPU, too.
const DefaultPageSize = 500

// maxLogRate is the largest LogRate.
const maxLogRate = 100_000

// Options configures a [Manager]. The zero value has the defaults, which suit production.
type Options struct {
	Namespaces []string // the namespaces that are watched, of kinds that have namespaces; default all
	PageSize   int      // objects in a page of a list: 1 to 10000; default 500; negative streams lists: see sources.WatchOptions
	UserAgent  string   // of requests, and the reporter of Events; default "bellerophon"

	// FieldManager is the field manager of writes: the name under which the API server records who set
	// which fields. At most 128 printable characters. The default is the controller's name in a reconcile,
	// and UserAgent elsewhere. Separate names keep server-side applies of two controllers from removing
	// each other's fields.
	FieldManager string

	// QPS bounds the requests a second of all controllers together, with bursts of up to Burst requests: 0,
	// the default, for no bound, or above 0; Burst is at least 1 then, and defaults to twice QPS. By
	// default the workers bound the requests in flight. The API server queues requests by its
	// priority levels, which a FlowSchema assigns by the service account.
	QPS   float32
	Burst int

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
	// bookmarks, and none if it sends one a minute. A watch that begins again also asks for the current
	// version: up to 12 times an hour, as watches end after 5 to 10 minutes.
	MaxStaleness time.Duration

	// LeaderElection lets one of several replicas act. By default there is no election, and the program must
	// run once.
	LeaderElection LeaderElection

	// The addresses of the HTTP servers, as "host:port"; port 0 stands for a free port. An empty
	// address starts no server. Clients of the profile server can read memory of the process.
	MetricsAddress string // serves /metrics, /debug/manager, /debug/tree and, unless History is negative, /debug/why
	HealthAddress  string // serves /healthz, which fails if requests are due and nothing moves, and /readyz
	ProfileAddress string // serves /debug/pprof/, and /debug/manager: the state of controllers, queues and caches as JSON

	// History bounds the memory, in bytes, of what the manager remembers to answer why an object was
	// reconciled: 64 KiB to 1 GiB; default 4 MiB; negative for no history. There is none without a
	// MetricsAddress either. See package history.
	History int

	// Protection and Certificate are for the metrics server and the profile server. By default, clients
	// need TLS and a token in a cluster, and the addresses must be loopback addresses elsewhere. The
	// certificate is followed when its files change. Without files the manager signs one by itself,
	// which protects against readers of the network, and not against a server in between.
	Protection  Protection
	Certificate CertificateFiles

	// ClientAuthorities is a file with certificate authorities in PEM. Clients of the protected servers
	// may then present a certificate of one of them instead of a token. As for an API server, its common
	// name is the user, and its organizations are the user's groups. The file is read again when it
	// changes. Default none.
	ClientAuthorities string

	// Shards, if set, shares the objects that controllers reconcile among the replicas of the program: see
	// [shards.Options]. Each replica reconciles its share, and the cache holds that share alone: the objects
	// that For names, and the objects of Owns by their owners. An object without a known owner is in every
	// cache, and so are the kinds of Watches. [Unsharded] makes a controller an exception.
	//
	// The writes of a reconcile fail with [shards.ErrLost] as soon as another replica may have taken its
	// object over. That holds for all requests with the context of the reconcile, also for requests of other
	// clients over [Manager.Connection].
	Shards *shards.Options

	// Recording, if set, records the inputs of the manager into files: the events, and the answers to the requests of
	// reconcilers. A replay gives them to the same reconcilers again. The types of objects that are kept must be in
	// the API's form, or projected from it. Default none.
	Recording *recording.Options

	Registry *prometheus.Registry // where metrics are registered; default a new one

	// DetectMutations is for tests. With it, a reconcile during which an object of the cache was
	// changed fails with an error that names the object and the change. It costs memory and time.
	DetectMutations bool

	Logger *slog.Logger // default slog.Default()

	// LogRate bounds the records of level Info and above that reconcilers write with [Logger], in a second for
	// each object of a controller: 1 to 100000; default 100; negative for no bound. At most half of them have a
	// message that the object had lately, so that a loop leaves room for other messages. A record a second for
	// each controller, and a metric, say how many were left out.
	LogRate int

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
	switch {
	case o.QPS < 0:
		return o, fmt.Errorf("manager: QPS is %v; allowed is above 0, or 0 for no bound", o.QPS)
	case o.Burst < 0 || o.Burst > 0 && o.QPS == 0:
		return o, fmt.Errorf("manager: Burst is %d with a QPS of %v; allowed is 1 and above, with QPS", o.Burst, o.QPS)
	case o.QPS > 0 && o.Burst == 0:
		o.Burst = max(1, int(2*o.QPS))
	}
	if o.LogRate == 0 {
		o.LogRate = loglimit.DefaultRate
	}
	if o.LogRate > maxLogRate {
		return o, fmt.Errorf("manager: LogRate is %d; allowed is 1 to %d, 0 for %d, or negative for no bound", o.LogRate, maxLogRate, loglimit.DefaultRate)
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
