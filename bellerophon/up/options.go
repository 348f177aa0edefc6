// Package up is the whole of Bellerophon in one process, for a first look and for tests:
// a cluster, the resource definitions and permissions, the operator, and sample objects
// whose way to Ready it shows.
package up

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Options of [Run].
type Options struct {
	Sheroes        int           // sample objects: 0 to 10000
	UntilSettled   bool          // return once all samples are Ready and the cache is Settled
	Timeout        time.Duration // of UntilSettled: 1 s to 24 h
	JSON           bool          // one JSON object at the end instead of the table
	Kubeconfig     string        // the user's own cluster; a local one is started if it is empty
	Namespace      string        // of the samples
	Image          string        // of the samples' servers; the definition's default if it is empty
	MetricsAddress string        // host:port
	Keep           bool          // leave what was made in the user's own cluster

	Stdout, Stderr *os.File
	Log            slog.Level
}

// Validate says which option is out of its range.
func (o Options) Validate() error {
	switch {
	case o.Sheroes < 0 || o.Sheroes > 10000:
		return fmt.Errorf("--sheroes is %d; allowed is 0 to 10000", o.Sheroes)
	case o.Timeout < time.Second || o.Timeout > 24*time.Hour:
		return fmt.Errorf("--timeout is %v; allowed is 1s to 24h", o.Timeout)
	case o.Namespace == "":
		return errors.New("--namespace is empty; name the namespace of the samples")
	case o.Keep && o.Kubeconfig == "":
		return errors.New("--keep goes with --kubeconfig: a local cluster ends with the command")
	}
	return nil
}
