package report

import (
	_ "embed" // for the rules
	"fmt"

	"sigs.k8s.io/yaml"
)

// Rules are the recording rules, as a file of Prometheus: it loads them while a run is
// scraped, so that the names are in the run's data.
//
//go:embed rules.yml
var Rules []byte

// panel is a time series that the page shows.
type panel struct {
	Record string `json:"record"` // the name of its rule
	Title  string `json:"title"`
	Unit   unit   `json:"unit"`
}

// panels are in the order of the page. Each has a rule, and each rule has one.
var panels = []panel{
	{"bench:reconciles:rate", "reconciles a second", plainNumber},
	{"bench:reconcile_seconds:p50", "time of a reconcile, median", inSeconds},
	{"bench:reconcile_seconds:p99", "time of a reconcile, p99", inSeconds},
	{"bench:queue_depth", "objects that wait for a reconcile", plainNumber},
	{"bench:queue_seconds:p99", "time in the queue, p99", inSeconds},
	{"bench:active", "reconciles at once", plainNumber},
	{"bench:events:rate", "events a second", plainNumber},
	{"bench:writes:rate", "writes a second", plainNumber},
	{"bench:objects", "objects held", plainNumber},
	{"bench:failures:rate", "failures a second", plainNumber},
	{"bench:cpu_seconds:rate", "processors that the contender uses", plainNumber},
	{"bench:rss_bytes", "memory of the contender (RSS)", inBytes},
	{"bench:heap_bytes", "memory on the contender's heap", inBytes},
	{"bench:server_cpu_seconds:rate", "processors that the API server uses", plainNumber},
	{"bench:etcd_cpu_seconds:rate", "processors that etcd uses", plainNumber},
	{"bench:server_rss_bytes", "memory of the API server (RSS)", inBytes},
}

// expressions reads what the rules record. The page asks for the expressions and not for
// the names, so that it shows runs whose Prometheus recorded nothing as well.
func expressions() (map[string]string, error) {
	var file struct {
		Groups []struct {
			Rules []struct{ Record, Expr string }
		}
	}
	if err := yaml.Unmarshal(Rules, &file); err != nil {
		return nil, fmt.Errorf("reading the recording rules: %w", err)
	}
	found := map[string]string{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			found[rule.Record] = rule.Expr
		}
	}
	return found, nil
}
