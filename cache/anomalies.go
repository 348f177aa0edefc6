package cache

import (
	"sync/atomic"

	"github.com/bellerophon-io/bellerophon/streams"
)

// Anomaly is a kind of event that should not happen; the package documentation lists them.
type Anomaly uint8

// The anomalies. The package documentation describes how each is handled.
const (
	DeleteUnknown Anomaly = iota
	Recreated
	Older
	ApplyAfterDelete
	OldList
	anomalyKinds
)

var anomalyNames = [anomalyKinds]string{"delete_unknown", "recreated", "older", "apply_after_delete", "old_list"}

// String returns the anomaly's name in metrics.
func (a Anomaly) String() string { return anomalyNames[a] }

type anomalies [anomalyKinds]atomic.Int64

// Anomalies calls visit with each anomaly and the number of times that it has happened.
func (s *Store) Anomalies(visit func(Anomaly, int64)) {
	for i := range s.anomalies {
		visit(Anomaly(i), s.anomalies[i].Load())
	}
}

// note counts and logs an anomaly.
func (s *Store) note(anomaly Anomaly, event *streams.Event) {
	s.anomalies[anomaly].Add(1)
	s.log.Debug("odd event", "anomaly", anomaly.String(), "namespace", event.Key.Namespace, "name", event.Key.Name,
		"resourceVersion", event.ResourceVersion, "source", event.Source)
}
