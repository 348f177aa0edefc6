// Package up runs all of Bellerophon in one process, for a first look and for tests. It starts a
// cluster, installs the resource definitions and permissions, runs the operator, applies sample
// objects, and shows how they become Ready.
package up

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Options configures [Run].
type Options struct {
	Sheroes        int           // sample objects: 0 to 10000
	Heroes         int           // heroes, which are applied instead of sample objects: 0 to 20
	Replicas       int           // processes of the operator that share the samples: 1 to 20; 1 runs it in this process
	UntilSettled   bool          // return once all samples are Ready and the cache is Settled
	Timeout        time.Duration // of UntilSettled: 1 s to 24 h
	JSON           bool          // one JSON object at the end instead of the table
	Kubeconfig     string        // the user's own cluster; empty starts a local one
	Namespace      string        // of the samples
	Image          string        // of the samples' servers; empty means the default of the definition
	MetricsAddress string        // host:port
	Record         string        // a folder for a recording of the operator; empty for none
	Prometheus     bool          // scrape the operator with a Prometheus of this machine
	Keep           bool          // leave everything that Run created in the user's own cluster

	Stdout, Stderr *os.File
	Log            slog.Level
}

// Validate returns an error if an option is out of its range.
func (o Options) Validate() error {
	switch {
	case o.Sheroes < 0 || o.Sheroes > 10000:
		return fmt.Errorf("--sheroes is %d; allowed is 0 to 10000", o.Sheroes)
	case o.Heroes < 0 || o.Heroes > 20:
		return fmt.Errorf("--heroes is %d; allowed is 0 to 20", o.Heroes)
	case o.Heroes > 0 && (o.Replicas > 1 || o.JSON || o.Kubeconfig != ""):
		return errors.New("--heroes goes with none of --replicas, --output json and --kubeconfig; in your own cluster, install charts/bellerophon-operator with heroes.enabled")
	case o.Replicas < 1 || o.Replicas > 20:
		return fmt.Errorf("--replicas is %d; allowed is 1 to 20", o.Replicas)
	case o.Replicas > 1 && (o.UntilSettled || o.JSON):
		return errors.New("--replicas goes with neither --until-settled nor --output json: no process sees the whole cache")
	case o.Record != "" && (o.Replicas > 1 || o.Heroes > 0):
		return errors.New("--record goes with neither --replicas nor --heroes; run the operator by itself, with its own --record")
	case o.Timeout < time.Second || o.Timeout > 24*time.Hour:
		return fmt.Errorf("--timeout is %v; allowed is 1s to 24h", o.Timeout)
	case o.Prometheus && o.MetricsAddress == "" && o.Replicas == 1:
		return errors.New("--metrics-address is empty, so --prometheus has nothing to scrape; leave out one of them")
	case o.Namespace == "":
		return errors.New("--namespace is empty; give the namespace of the samples")
	case o.Keep && o.Kubeconfig == "":
		return errors.New("--keep goes with --kubeconfig: a local cluster ends with the command")
	}
	return nil
}
