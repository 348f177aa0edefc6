package report

import (
	_ "embed" // for the rules
	"fmt"

	"sigs.k8s.io/yaml"
)

// Rules is the file of recording rules. Prometheus loads it while it scrapes a run, so that the
// run's data has the recorded names.
//
//go:embed rules.yml
var Rules []byte

// panel is a time series of the page.
type panel struct {
	Record string `json:"record"` // the name of its rule
	Title  string `json:"title"`
	Unit   unit   `json:"unit"`
}

// panels lists the time series in the order of the page. Panels and rules correspond one to one.
var panels = []panel{
	{"bench:reconciles:rate", "reconciles per second", plainNumber},
	{"bench:reconcile_seconds:p50", "duration of a reconcile, median", inSeconds},
	{"bench:reconcile_seconds:p99", "duration of a reconcile, p99", inSeconds},
	{"bench:queue_depth", "queued objects", plainNumber},
	{"bench:queue_seconds:p99", "time in the queue, p99", inSeconds},
	{"bench:active", "concurrent reconciles", plainNumber},
	{"bench:events:rate", "events per second", plainNumber},
	{"bench:writes:rate", "writes per second", plainNumber},
	{"bench:objects", "cached objects", plainNumber},
	{"bench:failures:rate", "failures per second", plainNumber},
	{"bench:cpu_seconds:rate", "contender's CPU, in processors", plainNumber},
	{"bench:rss_bytes", "contender's memory (RSS)", inBytes},
	{"bench:heap_bytes", "contender's heap", inBytes},
	{"bench:server_cpu_seconds:rate", "API server's CPU, in processors", plainNumber},
	{"bench:etcd_cpu_seconds:rate", "etcd's CPU, in processors", plainNumber},
	{"bench:server_rss_bytes", "API server's memory (RSS)", inBytes},
}

// expressions returns the expressions of the rules by their names. The page queries the expressions
// and not the names, so that it also shows runs whose Prometheus recorded nothing.
func expressions() (map[string]string, error) {
	var file struct {
		Groups []struct {
			Rules []struct{ Record, Expr string }
		}
	}
	if err := yaml.Unmarshal(Rules, &file); err != nil {
		return nil, fmt.Errorf("read the recording rules: %w", err)
	}
	found := map[string]string{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			found[rule.Record] = rule.Expr
		}
	}
	return found, nil
}
