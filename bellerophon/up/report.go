package up

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
)

// Report is the result of a run. With Options.JSON, Run prints it as one JSON object.
type Report struct {
	Cluster struct {
		Local      bool   `json:"local"`
		Kubeconfig string `json:"kubeconfig,omitempty"`
		Version    string `json:"version,omitempty"`
	} `json:"cluster"`
	Metrics    string `json:"metrics,omitempty"`    // the address of the operator's metrics
	Prometheus string `json:"prometheus,omitempty"` // the URL of the Prometheus that scrapes the operator
	Objects    []Row  `json:"objects"`

	Level        cache.Level `json:"syncLevel"`
	Uncounted    []string    `json:"notCounted,omitempty"` // kinds that do not count for the level
	LoopSeconds  float64     `json:"loopDurationSeconds"`  // smoothed
	QuietSeconds float64     `json:"quietSeconds"`         // how long Settled waits without an event

	// Seconds holds times since the start of the local cluster's first process, or since Run
	// began if the cluster is the user's own. A time is null if its event did not happen.
	Seconds struct {
		APIReady   *float64 `json:"apiReady"`
		FirstReady *float64 `json:"firstReady"`
		AllReady   *float64 `json:"allReady"`
		Settled    *float64 `json:"settled"`
	} `json:"seconds"`

	Error string `json:"error,omitempty"`
}

// Row is the state of one sample.
type Row struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Horse     string `json:"wingedHorseName"`
	Desired   int32  `json:"desired"`
	Ready     int32  `json:"ready"`
	State     string `json:"state"` // Pending, or the type of the condition that is true
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
}

func (r Row) count() string { return fmt.Sprintf("%d/%d", r.Ready, r.Desired) }

func seconds(d time.Duration) *float64 {
	rounded := math.Round(d.Seconds()*1000) / 1000
	return &rounded
}

// write writes the report of a run that ended with err, which may be nil.
func (r Report) write(out io.Writer, err error) error {
	if err != nil {
		r.Error = err.Error()
	}
	if r.Objects == nil {
		r.Objects = []Row{}
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
