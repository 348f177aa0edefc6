package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metricOperation is one line of METRICS_PATH.
type metricOperation struct {
	Name    string            `json:"name"`
	Action  string            `json:"action"`
	Value   *float64          `json:"value"`
	Set     *float64          `json:"set"` // the older form of action and value
	Add     *float64          `json:"add"`
	Buckets []float64         `json:"buckets"`
	Labels  map[string]string `json:"labels"`
	Group   string            `json:"group"`

	description *prometheus.Desc
}

// These are the values of action.
const (
	actionSet     = "set"
	actionAdd     = "add"
	actionObserve = "observe"
	actionExpire  = "expire"
)

// reservedPrefixes begin the names of the program's own metrics. Two metrics of one name and different types
// would make the page of all metrics fail.
var reservedPrefixes = []string{"bellerophon_", "go_", "process_", "rest_client_", "promhttp_"}

// hookMetrics collects the metrics of hooks. Their names and labels are not known before, so it describes none.
type hookMetrics struct {
	mu     sync.Mutex
	values map[string]*metricValue // by name, hook and labels
}

// metricValue is a gauge, a counter or a histogram with its labels.
type metricValue struct {
	description *prometheus.Desc
	name, hook  string
	group       string
	action      string
	value       float64            // of a gauge or a counter, or the sum of a histogram
	count       uint64             // of a histogram
	buckets     map[float64]uint64 // of a histogram, by upper bound
}

func newHookMetrics() *hookMetrics { return &hookMetrics{values: map[string]*metricValue{}} }

// Describe describes nothing, which makes the collector an unchecked one.
func (m *hookMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics.
func (m *hookMetrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, value := range m.values {
		switch value.action {
		case actionSet:
			to <- prometheus.MustNewConstMetric(value.description, prometheus.GaugeValue, value.value)
		case actionAdd:
			to <- prometheus.MustNewConstMetric(value.description, prometheus.CounterValue, value.value)
		case actionObserve:
			to <- prometheus.MustNewConstHistogram(value.description, value.count, value.value, maps.Clone(value.buckets))
		}
	}
}

// apply applies the lines that a hook wrote, or none if one of them is wrong.
func (m *hookMetrics) apply(hook *Hook, content []byte) error {
	var operations []*metricOperation
	decoder := json.NewDecoder(bytes.NewReader(content))
	for number := 1; ; number++ {
		var line json.RawMessage
		err := decoder.Decode(&line)
		if errors.Is(err, io.EOF) {
			break
		}
		read := &metricOperation{}
		if err == nil {
			err = decodeStrictly(line, read)
		}
		if err == nil {
			err = read.check(hook)
		}
		if err != nil {
			return fmt.Errorf("reading METRICS_PATH: metric %d: %w", number, err)
		}
		operations = append(operations, read)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replaceGroups(hook, operations)
	for _, operation := range operations {
		if err := m.add(hook, operation); err != nil {
			return fmt.Errorf("METRICS_PATH: %w", err)
		}
	}
	return nil
}

// replaceGroups removes the values of the groups that the operations name: a run replaces a group as a whole.
func (m *hookMetrics) replaceGroups(hook *Hook, operations []*metricOperation) {
	for _, operation := range operations {
		if operation.Group != "" {
			maps.DeleteFunc(m.values, func(_ string, value *metricValue) bool {
				return value.hook == hook.Name && value.group == operation.Group
			})
		}
	}
}

// check checks the fields of a line, and describes its metric.
func (o *metricOperation) check(hook *Hook) error {
	if o.Action == "" {
		switch {
		case o.Set != nil:
			o.Action, o.Value = actionSet, o.Set
		case o.Add != nil:
			o.Action, o.Value = actionAdd, o.Add
		}
	}
	isName := func(r rune) bool {
		return !(r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
	}
	switch {
	case o.Action == actionExpire && o.Group == "":
		return errors.New("group is missing")
	case o.Action == actionExpire:
		return nil
	case o.Action != actionSet && o.Action != actionAdd && o.Action != actionObserve:
		return fmt.Errorf("action is %q; allowed are set, add, observe and expire", o.Action)
	case o.Name == "" || strings.ContainsFunc(o.Name, isName):
		return fmt.Errorf("name is %q; allowed are letters, digits and _", o.Name)
	case slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(o.Name, prefix) }):
		return fmt.Errorf("name is %q; the program has metrics of its own that begin so", o.Name)
	case o.Value == nil || math.IsNaN(*o.Value):
		return fmt.Errorf("the value of %s is missing", o.Name)
	case o.Action == actionAdd && *o.Value < 0:
		return fmt.Errorf("the value of %s is %v; a counter only grows", o.Name, *o.Value)
	case o.Action == actionObserve && !slices.IsSorted(o.Buckets):
		return fmt.Errorf("the buckets of %s are not in order", o.Name)
	}
	for label := range o.Labels {
		if label == "" || label == "hook" || strings.ContainsFunc(label, isName) {
			return fmt.Errorf("%s has the label %q; allowed are letters, digits and _, and hook is taken", o.Name, label)
		}
	}
	labels := prometheus.Labels{"hook": hook.Name}
	maps.Copy(labels, o.Labels)
	o.description = prometheus.NewDesc(o.Name, "A metric of hooks.", nil, labels)
	_, err := prometheus.NewConstMetric(o.description, prometheus.UntypedValue, 0)
	return err // For a reserved label, for example: it would make the page of all metrics fail.
}

// add changes one value.
func (m *hookMetrics) add(hook *Hook, operation *metricOperation) error {
	if operation.Action == actionExpire {
		return nil
	}
	key := operation.description.String()
	for _, other := range m.values {
		if other.name == operation.Name && other.action != operation.Action {
			return fmt.Errorf("%s is used with %s, and before with %s by hook %s", operation.Name, operation.Action, other.action, other.hook)
		}
	}
	value := m.values[key]
	if value == nil {
		value = &metricValue{
			description: operation.description,
			name:        operation.Name, hook: hook.Name, action: operation.Action, buckets: map[float64]uint64{},
		}
		bounds := operation.Buckets
		if len(bounds) == 0 {
			bounds = prometheus.DefBuckets
		}
		for _, bound := range bounds {
			value.buckets[bound] = 0
		}
		m.values[key] = value
	}
	value.group = operation.Group
	switch operation.Action {
	case actionSet:
		value.value = *operation.Value
	case actionAdd:
		value.value += *operation.Value
	case actionObserve:
		value.value += *operation.Value
		value.count++
		for bound := range value.buckets {
			if *operation.Value <= bound {
				value.buckets[bound]++
			}
		}
	}
	return nil
}
