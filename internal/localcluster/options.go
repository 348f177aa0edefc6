package localcluster

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// Options configures [Start]. The zero value selects the defaults.
type Options struct {
	// APIPort is the port of 127.0.0.1 that the API server listens on: 0 (the default) for any
	// free port, or 1 to 65535.
	APIPort int

	// Data is a directory that [Cluster.StopAndKeep] or [Cluster.Snapshot] wrote. The cluster
	// starts with a copy of it instead of empty data. The directory is not changed.
	Data string

	// CacheDir holds the built binaries and a directory for each running cluster. The default is
	// "bellerophon" in os.UserCacheDir.
	CacheDir string

	// Progress is called with the current step of Start, from one goroutine at a time. A first
	// start builds the control plane, which takes minutes, so show the progress to the user.
	Progress func(Progress)

	// Logger receives detailed messages. The default logs nothing.
	Logger *slog.Logger
}

// Progress is one step of [Start].
type Progress struct {
	Phase  string // the current step, for example "compiling kwok"
	Detail string // the current item of the step, for example a package; may be empty
	Done   int    // the number of items done, of Total
	Total  int    // 0 if unknown
}

// complete validates the options and fills in defaults.
func (o Options) complete() (Options, error) {
	if o.APIPort < 0 || o.APIPort > 65535 {
		return o, fmt.Errorf("localcluster: APIPort is %d; it must be 0 (any free port) or 1 to 65535", o.APIPort)
	}
	if o.CacheDir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return o, fmt.Errorf("localcluster: find the cache directory: %w; set XDG_CACHE_HOME to a directory that you can write", err)
		}
		o.CacheDir = filepath.Join(cache, "bellerophon")
	}
	var err error
	if o.CacheDir, err = filepath.Abs(o.CacheDir); err != nil {
		return o, fmt.Errorf("localcluster: resolve CacheDir %q: %w", o.CacheDir, err)
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
