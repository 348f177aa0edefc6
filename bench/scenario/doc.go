// Package scenario holds the scenarios in which contenders are measured. Each scenario starts a
// contender, sends a load to the cluster, and measures the contender and the API server. [Describe]
// lists them.
//
// What it guarantees:
//
//   - The harness sends the load and watches the results directly at the API server. Only the
//     contender goes through the proxy. An object is finished when the harness's own watch shows
//     a finished status whose observedGeneration is the object's generation.
//   - Steady load and churn are open loops. A request is sent when it is due, even if earlier
//     requests are still in flight, and its latency is measured from when it was due.
//   - No load begins before the contender watches and has been quiet for a while. No window of
//     CPU and requests ends before the contender is quiet again. So work that a contender does
//     after the last finished status counts as well.
//   - A disturbance of the API server is for the contender alone, except when the API server is killed. It
//     begins when the contender is quiet, and what drifts then is repaired by the contender alone.
//   - Everything has a time limit. An error that the contender causes is a [Failure]; any other
//     error is of the harness or of the cluster.
package scenario
