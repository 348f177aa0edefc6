package controller

import "github.com/prometheus/client_golang/prometheus"

var (
	masterStatus      = desc("leader_election_master_status", "1 if this replica leads.", "name")
	leaderInfo        = desc("bellerophon_leader_info", "1, with the identity of this replica and the identity that the Lease names.", "name", "identity", "holder")
	leaderTransitions = desc("bellerophon_leader_transitions_total", "Transitions of this replica: acquired, lost or released.", "name", "transition")
	leaseTransitions  = desc("bellerophon_lease_transitions", "Transitions of the Lease between replicas, as the Lease counts them.", "name")
	leaseValid        = desc("bellerophon_lease_valid_seconds", "Time for which this replica may still start writes; 0 if it does not lead.", "name")
	fencedWrites      = desc("bellerophon_fenced_writes_total", "Writes that the fence has stopped: refused before they were sent, or cut while in flight.", "name", "reason")
)

// Describe implements prometheus.Collector.
func (l *leader) Describe(out chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{masterStatus, leaderInfo, leaderTransitions, leaseTransitions, leaseValid, fencedWrites} {
		out <- description
	}
}

// Collect implements prometheus.Collector.
func (l *leader) Collect(out chan<- prometheus.Metric) {
	name := l.lease.Name
	send := func(of *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(of, kind, value, append([]string{name}, labels...)...)
	}
	holder, transitions := l.elector.Holder()
	leads, valid := 0.0, 0.0
	if epoch := l.elector.Epoch(); epoch != nil {
		leads, valid = 1, max(0, epoch.Left().Seconds())
	}
	send(masterStatus, prometheus.GaugeValue, leads)
	send(leaseValid, prometheus.GaugeValue, valid)
	send(leaderInfo, prometheus.GaugeValue, 1, l.identity, holder)
	send(leaseTransitions, prometheus.GaugeValue, float64(transitions))
	send(leaderTransitions, prometheus.CounterValue, float64(l.acquired.Load()), "acquired")
	send(leaderTransitions, prometheus.CounterValue, float64(l.lost.Load()), "lost")
	send(leaderTransitions, prometheus.CounterValue, float64(l.released.Load()), "released")
	send(fencedWrites, prometheus.CounterValue, float64(l.fence.Refused.Load()), "refused")
	send(fencedWrites, prometheus.CounterValue, float64(l.fence.Cut.Load()), "cut")
}
