// Package scenario is what the contenders are put through: each scenario starts a
// contender, puts a load on the cluster, and measures what comes of it.
//
//	burst    n objects are created as fast as the API server takes them
//	start    n objects are there, without children, when the contender is started
//	return   n objects are finished and m are new, because it was away, when the contender is started
//	restart  n objects are finished when the contender is started again
//	storm    n objects are each changed m times, as fast as the API server takes it
//	steady   n objects are created at a share of the rate that the ideal client reaches
//	drift    of each of n finished objects a child is changed by somebody else: a ConfigMap, a Service
//	         or a StatefulSet
//	churn    the oldest of n objects is deleted and a new one created, m times
//	idle     n objects are finished and nothing happens, for a time
//
// What it guarantees:
//
//   - Load and judgement go straight to the API server; the contender goes through the
//     proxy. A watch of the harness's own says when an object is finished: its status is,
//     with the observedGeneration of its generation.
//   - Steady load and churn are open loops: a request is sent when it is due, whether or not
//     those before it were answered, and latencies count from when it was due.
//   - No load begins before the contender watches and has been quiet for a while, and no
//     window of CPU and requests ends before it is quiet again. So what a contender does
//     later, behind the last finished status, is in its bill.
//   - Everything has a time limit. What the contender fails at is a [Failure]; any other
//     error is of the harness or of the cluster.
package scenario
