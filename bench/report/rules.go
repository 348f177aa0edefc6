package report

import (
	_ "embed" // for the rules
	"fmt"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"sigs.k8s.io/yaml"
)

//go:embed rules.yml
var shared []byte

// rulesFile is a file of recording rules.
type rulesFile struct {
	Groups []struct {
		Name     string `json:"name"`
		Interval string `json:"interval"`
		Rules    []rule `json:"rules"`
	} `json:"groups"`
}

type rule struct {
	Record string `json:"record"`
	Expr   string `json:"expr"`
}

// rules returns the rules of rules.yml with the expressions of the contenders.
func rules() (rulesFile, error) {
	var file rulesFile
	if err := yaml.Unmarshal(shared, &file); err != nil {
		return file, fmt.Errorf("read the recording rules: %w", err)
	}
	for _, group := range file.Groups {
		for i := range group.Rules {
			one := &group.Rules[i]
			alternatives := []string{one.Expr}
			for _, c := range contender.All() {
				alternatives = append(alternatives, c.Series[one.Record])
			}
			alternatives = slices.DeleteFunc(alternatives, func(expr string) bool { return strings.TrimSpace(expr) == "" })
			one.Expr = strings.Join(alternatives, " or ")
		}
	}
	return file, nil
}

// Rules returns the file of recording rules. Prometheus loads it while it scrapes a run, so that the
// run's data has the recorded names.
func Rules() ([]byte, error) {
	file, err := rules()
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("write the recording rules: %w", err)
	}
	return text, nil
}

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
	file, err := rules()
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			found[rule.Record] = rule.Expr
		}
	}
	return found, nil
}
