package localcluster

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// Options of [Start]. The zero value is a cluster with default settings.
type Options struct {
	// APIPort is the port of 127.0.0.1 that the API server listens on: 0 (the default)
	// for any free one, or 1 to 65535.
	APIPort int

	// Data is a directory that [Cluster.StopAndKeep] left: the cluster begins with a copy of
	// it instead of empty. It is not changed.
	Data string

	// CacheDir holds the binaries that were built and a directory for each cluster that
	// runs. The default is "bellerophon" in os.UserCacheDir.
	CacheDir string

	// Progress is called with what Start is doing now, from one goroutine at a time. A
	// first start builds the control plane, which takes minutes: show it.
	Progress func(Progress)

	// Logger gets what goes on in detail. The default logs nothing.
	Logger *slog.Logger
}

// Progress is one step of [Start].
type Progress struct {
	Phase  string // what is being done, for example "compiling kwok"
	Detail string // what it is being done to right now, for example a package; may be empty
	Done   int    // how many of Total are done
	Total  int    // 0 if it is not known
}

// complete validates the options and fills in defaults.
func (o Options) complete() (Options, error) {
	if o.APIPort < 0 || o.APIPort > 65535 {
		return o, fmt.Errorf("localcluster: APIPort is %d; it must be 0 (any free port) or 1 to 65535", o.APIPort)
	}
	if o.CacheDir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return o, fmt.Errorf("localcluster: no cache directory: %w; set XDG_CACHE_HOME to a directory that you can write", err)
		}
		o.CacheDir = filepath.Join(cache, "bellerophon")
	}
	var err error
	if o.CacheDir, err = filepath.Abs(o.CacheDir); err != nil {
		return o, fmt.Errorf("localcluster: making CacheDir %q absolute: %w", o.CacheDir, err)
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
